"""The needs of a platform's first start, and of each newer release's."""

from penstock.contract import shared
from penstock.contract.nouns import Ending, Folder, Life, Process
from penstock.settings.processes import InitSettings

INIT = Process(
    name="init",
    about="Brings the database up to date, and makes the operators' first key where there is none; then ends.",
    command=("penstock", "init"),
    settings=InitSettings,
    needed=(
        "home",
        "database_url",
        "platform_key_file",
        "pepper_file",
        "admin_key_file",
        "gateway_database_password_file",
        "controller_database_password_file",
        "runner_database_password_file",
    ),
    folders=(
        shared.home(64 * shared.MIB, Life.PROCESS, "Nothing that must last."),
        Folder(
            name="admin key",
            setting="admin_key_file",
            path="/var/lib/penstock-admin/admin.key",
            size_bytes=shared.MIB,
            life=Life.REPLICA,
            meaning="The file, in a folder that outlives the job, or whose content is taken to where secrets are kept.",
        ),
    ),
    secrets=(
        shared.PLATFORM_KEY,
        shared.PEPPER,
        shared.password("database", "The password of the tables' owner, who may make roles."),
        shared.granted_password("gateway"),
        shared.granted_password("controller"),
        shared.granted_password("runner"),
        shared.DATABASE_CA,
    ),
    calls=(shared.database(),),
    ending=Ending(
        signals=(("SIGTERM", "Ends; whatever was not finished is done by the next run."),),
        exits=((0, "all is there"), (1, "something is missing; the last line says what")),
    ),
    replicas="any number at a time: they wait for each other",
)
