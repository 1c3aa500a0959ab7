"""The bounds of scaling that a file names: read by the controller, and by the supervisor of one machine's gateways."""

from pathlib import Path

from penstock.domain.command_error import CommandError
from penstock.domain.serving.spec import SpecRefused
from penstock.formats.documents import DocumentRefused, yaml_of
from penstock.scaling.bounds import ScaleBounds, parse
from penstock.settings.processes import ControllerSettings


def bounds_of(settings: ControllerSettings) -> ScaleBounds:
    if not settings.scale_file:
        return ScaleBounds()
    do = "See docs/how-it-decides/scaling.md, or leave PENSTOCK_SCALE_FILE empty."
    try:
        return parse(yaml_of(Path(settings.scale_file).read_bytes()), settings.scale_file)
    except OSError as error:
        raise CommandError(f"{settings.scale_file} can't be read: {error.strerror}.", do=do) from error
    except (SpecRefused, DocumentRefused) as error:
        raise CommandError(str(error), do=do) from error
