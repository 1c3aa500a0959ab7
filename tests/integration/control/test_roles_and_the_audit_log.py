"""No role changes or empties a table of the audit log, or becomes another role."""

import pytest

from penstock.connectors.postgres import roles
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.roles import AUDITORS, CONTROLLER, GATEWAY, RUNNER

pytestmark = pytest.mark.integration


@pytest.fixture
async def granted(database: Database) -> None:
    """Give the processes their roles in the test's database."""
    await roles.grant(database, {GATEWAY: "", CONTROLLER: "", RUNNER: ""})


MAY_CHANGE = {
    (CONTROLLER, "audit_pending", "delete"),
    (CONTROLLER, "audit_segment", "update"),
}
"""The verbs that roles have on tables of the audit log, beside reading and inserting: both lose no act unseen."""


async def test_no_role_changes_or_empties_a_table_of_the_audit_log(granted: None, database: Database) -> None:
    """By no role but the owner's, of all tables that the catalogue has; a controller sets that a segment is shipped."""
    found_tables = await database.rows("select tablename from pg_tables where tablename ~ '^audit|^intervention$'")
    tables = {str(row[0]) for row in found_tables}
    assert tables >= {"audit_event", "audit_link", "audit_segment", "audit_pending", "intervention"}
    found = {
        (role, table, verb)
        for role in (GATEWAY, CONTROLLER, RUNNER, AUDITORS, "public")
        for table in tables
        for verb in ("update", "delete", "truncate", "references", "trigger")
        if await holds(database, role, table, verb)
    }
    assert found == MAY_CHANGE
    (columns,) = await database.rows(
        "select array_agg(attname::text) from pg_attribute where attrelid = 'audit_segment'::regclass and attnum > 0 "
        "and has_column_privilege($1, attrelid, attnum, 'update')",
        CONTROLLER,
    )
    assert list(columns[0]) == ["shipped_at"]


async def holds(database: Database, role: str, table: str, verb: str) -> bool:
    """Tell whether a role has a privilege on a table, or on a column of it."""
    by_column = " or has_any_column_privilege($1, $2, $3)" if verb in {"update", "references"} else ""
    (row_,) = await database.rows(f"select has_table_privilege($1, $2, $3){by_column}", role, table, verb)
    return bool(row_[0])


async def test_no_role_of_a_process_is_another_or_owns(granted: None, database: Database) -> None:
    """None may become the tables' owner, be a member of another role, or go around rights as a superuser does."""
    rows = await database.rows(
        "select rolname::text from pg_roles where rolname like 'penstock\\_%' and (rolsuper or rolcreaterole "
        "or rolbypassrls or exists (select from pg_auth_members where member = pg_roles.oid) "
        "or exists (select from pg_class where relowner = pg_roles.oid))"
    )
    assert rows == []
