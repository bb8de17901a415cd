"""Carries out `tideline retire`: takes a discontinued pipeline out of sight, or back."""

from tideline import flow
from tideline.cli.output import Page
from tideline.declaration import pipelines
from tideline.inspection.session import ledger


def retire(name: str, *, back: bool, reason: str, dry_run: bool = False) -> Page:
    """Take a discontinued pipeline out of sight, or back."""
    if not back:
        pipelines.check_undeclared(name)
    with ledger() as session:
        changed = flow.retire(session, name, back=back, reason=reason, dry_run=dry_run)
    if changed:
        would = "would be" if dry_run else "is"
        said = f"{would} " + ("listed again" if back else "retired; its history stays: tideline pipelines --retired")
    else:
        said = f"is {'not retired' if back else 'retired already'}; nothing was changed"
    document = {"pipeline": name, "retired": not back, "changed": changed, "dry_run": dry_run}
    return Page(document=document, parts=[f"{name}: {said}"])
