"""The dashboard and the alerts of deploy/monitoring: they use numbers that exist, and each alert fires when it should and leads to its entry.

Their form and their expressions are always checked. Whether the alerts fire is checked by Prometheus's own promtool, where it is installed.
"""

import copy
import json
import re
import shutil
import subprocess
from pathlib import Path

import promql_parser as promql
import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

import monitoring_schemas
from tideline.metrics.catalogue import DURATION, GAUGES, PREFIX
from tideline.settings import PROJECT

FOLDER = PROJECT / "deploy" / "monitoring"
RULES, DASHBOARD = FOLDER / "tideline.rules.yml", FOLDER / "tideline.dashboard.json"
GROUPS = YAML(typ="safe").load(RULES)
ALERTS = {rule["alert"]: rule for group in GROUPS["groups"] for rule in group["rules"]}
NUMBERS = {PREFIX + name: {*number.labels} for name, number in GAUGES.items()}
NUMBERS |= {f"{PREFIX}{DURATION}_{part}": {"pipeline", "le"} for part in ("bucket", "gcount", "gsum")}
WORDS = {"pipeline", "topic", "partition", "state", "kind", "fate", "step", "asked"}
TEN_HOURS = 120
"""In intervals of five minutes: the length of the series."""

HEALTHY = {
    "ledger_up": "1x{n}",
    'broker_up{pipeline="a"}': "1x{n}",
    'declaration_valid{pipeline="a"}': "1x{n}",
    'streams{pipeline="a",state="stopped"}': "0x{n}",
    'streams_stopping{pipeline="a"}': "0x{n}",
    'headroom_ratio{pipeline="a",topic="t",partition="0"}': "0.75x{n}",
    'lag_seconds{pipeline="a",topic="t",partition="0"}': "3000x{n}",
    'lag_records{pipeline="a",topic="t",partition="0"}': "200000x{n}",
    'held_records{pipeline="a",topic="t",partition="0"}': "0x{n}",
    'last_planned_timestamp_seconds{pipeline="a"}': "0+300x{n}",
    'oldest_open_batch_timestamp_seconds{pipeline="a"}': "0+300x{n}",
    'recent_records{pipeline="a",fate="written"}': "1000x{n}",
    'recent_records{pipeline="a",fate="filtered"}': "0x{n}",
    'recent_records{pipeline="a",fate="rejected"}': "5x{n}",
    'hole_offsets{pipeline="a",kind="lost"}': "7x{n}",
    'outbox_oldest_timestamp_seconds{pipeline="a"}': "0+300x{n}",
}
"""The series of a pipeline that is well, by name and labels, in promtool's notation."""
STOPS_PLANNING = "0x{n}"
BROKEN = {
    "TidelineNumbersMissing": {"ledger_up": None},
    "TidelineLedgerDown": {"ledger_up": "0x{n}"},
    "TidelineBrokerDown": {'broker_up{pipeline="a"}': "0x{n}"},
    "TidelineDeclarationBroken": {'declaration_valid{pipeline="a"}': "0x{n}"},
    "TidelineStreamStopped": {'streams_stopping{pipeline="a"}': "1x{n}"},
    "TidelineHeadroomSmall": {'headroom_ratio{pipeline="a",topic="t",partition="0"}': "0.25x{n}"},
    "TidelineTransactionHangs": {'held_records{pipeline="a",topic="t",partition="0"}': "3x{n}"},
    "TidelineLagOld": {'lag_seconds{pipeline="a",topic="t",partition="0"}': "30000x{n}"},
    "TidelineLagGrows": {'lag_records{pipeline="a",topic="t",partition="0"}': "1000x90 200000x{n}"},
    "TidelineNothingPlanned": {'last_planned_timestamp_seconds{pipeline="a"}': STOPS_PLANNING},
    "TidelineBatchOpenTooLong": {'oldest_open_batch_timestamp_seconds{pipeline="a"}': STOPS_PLANNING},
    "TidelineRejectsShare": {'recent_records{pipeline="a",fate="rejected"}': "50x{n}"},
    "TidelineOffsetsLost": {'hole_offsets{pipeline="a",kind="lost"}': "7x112 9x{n}"},
    "TidelineOutboxStuck": {'outbox_oldest_timestamp_seconds{pipeline="a"}': "-72000x{n}"},
}
"""For each alert, the series that differ when it has to fire; None is a series that is not there."""
promtool = pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")


def expressions() -> list[str]:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    shown = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    return [*shown, *(rule["expr"] for rule in ALERTS.values())]


def parts(expression: str) -> list[promql.Expr]:
    """Return all parts of an expression; fail if it is no PromQL. Grafana puts a duration in the place of its variable."""
    found: list[promql.Expr] = []
    promql.walk(promql.parse(expression.replace("$__rate_interval", "5m")), found.append)
    return found


@pytest.mark.parametrize("expression", expressions())
def test_an_expression_is_promql_and_uses_numbers_and_labels_that_exist(expression):
    found = parts(expression)
    selectors = [each for each in found if isinstance(each, promql.VectorSelector)]
    assert {each.name for each in selectors} <= NUMBERS.keys()
    for each in selectors:
        assert {matcher.name for matcher in each.matchers.matchers} <= NUMBERS[each.name], each
    labels = set().union(*(NUMBERS[each.name] for each in selectors))
    grouped = [each.modifier for each in found if isinstance(each, promql.AggregateExpr) and each.modifier]
    joined = [each.modifier for each in found if isinstance(each, promql.BinaryExpr) and each.modifier]
    grouped += [each.matching for each in joined if each.matching]
    for each in grouped:
        assert set(each.labels) <= labels
    assert {label for each in joined for label in each.group_labels or ()} <= labels


@pytest.mark.parametrize(
    "wrong",
    ["sum by (pipeline) (tideline_lag_records", "rate(tideline_lag_records)", "lag(tideline_lag_records)", "a b"],
)
def test_what_is_no_promql_is_found(wrong):
    with pytest.raises(ValueError, match=r"unclosed|expected type matrix|unknown function|invalid promql"):
        parts(wrong)


def wrong_in(document, schema) -> list[str]:
    Draft202012Validator.check_schema(schema)
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(document)]


def test_rules_and_dashboard_have_the_form_that_prometheus_and_grafana_read():
    assert wrong_in(GROUPS, monitoring_schemas.RULES) == []
    assert wrong_in(json.loads(DASHBOARD.read_text()), monitoring_schemas.DASHBOARD) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"form": "5m"}, r"'form' was unexpected"),
        ({"for": "5 minutes"}, r"'5 minutes' does not match"),
        ({"expr": None}, r"None is not of type 'string'"),
        ({"labels": {}}, r"'severity' is a required property"),
        ({"labels": {"severity": "loud"}}, r"'loud' is not one of"),
        ({"annotations": {"summary": "s", "description": "d"}}, r"'runbook' is a required property"),
    ],
)
def test_a_rule_of_another_form_is_found(change, expected):
    changed = copy.deepcopy(GROUPS)
    changed["groups"][0]["rules"][0] |= change
    [found] = wrong_in(changed, monitoring_schemas.RULES)
    assert re.search(expected, found)


def test_a_panel_of_another_form_is_found():
    changed = json.loads(DASHBOARD.read_text())
    changed["panels"][1]["targets"][0]["query"] = changed["panels"][1]["targets"][0].pop("expr")
    [found] = wrong_in(changed, monitoring_schemas.DASHBOARD)
    assert found.startswith("$.panels[1]: ")


def test_every_number_is_on_the_dashboard_or_in_an_alert():
    text = " ".join(expressions())
    unused = {name for name in NUMBERS if not re.search(rf"\b{name}\b", text)}
    details = {"log_start_offset", "retention_seconds", "state_bytes", f"{DURATION}_gcount", f"{DURATION}_gsum"}
    assert unused == {PREFIX + name for name in details}


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_leads_to_its_entry(alert):
    page, _, anchor = ALERTS[alert]["annotations"]["runbook"].partition("#")
    headings = re.findall(r"^#+ (.+)$", (PROJECT / page).read_text(encoding="utf-8"), re.MULTILINE)
    assert anchor in {heading.lower().replace(" ", "-") for heading in headings}
    assert ALERTS[alert]["labels"]["severity"] in {"critical", "warning"}
    named = re.findall(r"\$labels\.(\w+)", " ".join(ALERTS[alert]["annotations"].values()))
    assert set(named) <= WORDS & set().union(
        *(NUMBERS[name] for name in re.findall(r"\btideline_\w+", ALERTS[alert]["expr"]))
    )


def test_each_panel_of_the_dashboard_has_a_place_of_its_own():
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    cells = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_every_alert_is_tried():
    assert BROKEN.keys() == ALERTS.keys()


@promtool
def test_promtool_accepts_the_rules():
    subprocess.run(["promtool", "check", "rules", RULES], check=True)


@promtool
@pytest.mark.parametrize("alert", ["", *ALERTS])
def test_an_alert_fires_when_its_numbers_are_bad_and_no_other_does(tmp_path, alert):
    """Without a bad number none fires."""
    series = HEALTHY | BROKEN.get(alert, {})
    given = [
        {"series": PREFIX + name, "values": values.format(n=TEN_HOURS)}
        for name, values in series.items()
        if values is not None
    ]
    samples = [{"labels": f'{{alertname="{alert}"}}', "value": 1}] if alert else []
    expected = {
        "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
        "eval_time": "595m",
        "exp_samples": samples,
    }
    test = {"interval": "5m", "input_series": given, "promql_expr_test": [expected]}
    rules = shutil.copy(RULES, tmp_path)
    file = Path(tmp_path, "test.yml")
    file.write_text(json.dumps({"rule_files": [Path(rules).name], "evaluation_interval": "5m", "tests": [test]}))
    done = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
