-- The pipelines that have claimed an output.
SELECT pipeline, purpose, shared FROM tideline.claimed_output
WHERE tideline.names(kind || ' ' || place, kind || ' ' || place, '[]')
      && tideline.names(%(kind)s || ' ' || %(place)s, %(kind)s || ' ' || %(place)s, '[]')
ORDER BY pipeline, purpose;
