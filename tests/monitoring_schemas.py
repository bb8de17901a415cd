"""The forms of a rules file of Prometheus and of a dashboard of Grafana, as far as ours use them: a key that is not here is a mistake."""

from typing import Any

_TEXT = {"type": "string", "minLength": 1}
_DURATION = {"type": "string", "pattern": r"^([0-9]+(ms|[smhdwy]))+$"}
_LABEL = r"^[a-zA-Z_][a-zA-Z0-9_]*$"


def _object(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the form of an object that has all of the required keys, and no others than these and the optional ones."""
    return {
        "type": "object",
        "required": list(required),
        "properties": required | (optional or {}),
        "additionalProperties": False,
    }


def _texts(required: dict[str, Any]) -> dict[str, Any]:
    """Return the form of labels or annotations: texts, of which some are required."""
    form = _object(required)
    return form | {"propertyNames": {"pattern": _LABEL}, "additionalProperties": _TEXT}


_ALERT = _object(
    {
        "alert": {"type": "string", "pattern": r"^[A-Z][A-Za-z]+$"},
        "expr": _TEXT,
        "labels": _texts({"severity": {"enum": ["critical", "warning"]}}),
        "annotations": _texts({"summary": _TEXT, "description": _TEXT, "runbook": _TEXT}),
    },
    {"for": _DURATION},
)
_GROUP = _object({"name": _TEXT, "rules": {"type": "array", "minItems": 1, "items": _ALERT}}, {"interval": _DURATION})
RULES = _object({"groups": {"type": "array", "minItems": 1, "items": _GROUP}})

_NUMBER = {"type": "integer", "minimum": 0}
_SOURCE = _object({"type": {"const": "prometheus"}, "uid": {"const": "${datasource}"}})
_TARGET = _object(
    {
        "refId": {"type": "string", "pattern": "^[A-Z]$"},
        "datasource": _SOURCE,
        "expr": _TEXT,
        "legendFormat": {"type": "string"},
        "instant": {"type": "boolean"},
    },
    {"format": {"enum": ["table", "time_series"]}},
)
_THRESHOLDS = _object(
    {
        "mode": {"enum": ["absolute", "percentage"]},
        "steps": {
            "type": "array",
            "minItems": 1,
            "items": _object({"color": _TEXT, "value": {"type": ["number", "null"]}}),
        },
    }
)
_DEFAULTS = _object(
    {},
    {
        "color": _object({"mode": _TEXT}),
        "mappings": {"type": "array", "items": {"type": "object", "required": ["type", "options"]}},
        "max": {"type": "number"},
        "min": {"type": "number"},
        "thresholds": _THRESHOLDS,
        "unit": _TEXT,
    },
)
_OVERRIDE = _object(
    {
        "matcher": _object({"id": _TEXT, "options": _TEXT}),
        "properties": {"type": "array", "items": _object({"id": _TEXT, "value": {}})},
    }
)
_PLACE = {"id": _NUMBER, "title": _TEXT, "gridPos": _object({"x": _NUMBER, "y": _NUMBER, "w": _NUMBER, "h": _NUMBER})}
_SHOWN = {
    **_PLACE,
    "datasource": _SOURCE,
    "description": {"type": "string"},
    "targets": {"type": "array", "minItems": 1, "items": _TARGET},
    "fieldConfig": _object({}, {"defaults": _DEFAULTS, "overrides": {"type": "array", "items": _OVERRIDE}}),
}
_PANELS = [
    _object({"type": {"const": "row"}, "collapsed": {"type": "boolean"}, "panels": {"const": []}, **_PLACE}),
    _object({"type": {"enum": ["stat", "timeseries"]}, **_SHOWN}),
    _object(
        {
            "type": {"const": "table"},
            "options": {"type": "object"},
            "transformations": {"type": "array", "items": _object({"id": _TEXT, "options": {"type": "object"}})},
            **_SHOWN,
        }
    ),
]
DASHBOARD = _object(
    {
        "title": _TEXT,
        "uid": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,40}$"},
        "tags": {"type": "array", "items": _TEXT},
        "editable": {"type": "boolean"},
        "schemaVersion": _NUMBER,
        "version": _NUMBER,
        "refresh": _DURATION,
        "time": _object({"from": _TEXT, "to": _TEXT}),
        "timezone": {"const": "browser"},
        "templating": _object({"list": {"type": "array", "items": {"type": "object", "required": ["name", "type"]}}}),
        "annotations": _object({"list": {"type": "array"}}),
        "panels": {"type": "array", "minItems": 1, "items": {"oneOf": _PANELS}},
    }
)
