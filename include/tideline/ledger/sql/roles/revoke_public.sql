-- Take from everyone what is on the ledger: what each role needs is granted to it. Laws and queries of every role call the functions that stay.
-- Those of the range type belong to the superuser of the server: only if that is the ledger's owner as well does the statement above close them.
REVOKE ALL ON ALL TABLES IN SCHEMA tideline FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA tideline FROM PUBLIC;
REVOKE ALL ON ALL ROUTINES IN SCHEMA tideline FROM PUBLIC;
REVOKE ALL ON SCHEMA tideline, tideline_staging FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    tideline.covering(bigint, int8range), tideline.folding(text), tideline.has_loaded(text), tideline.may_have_committed(text),
    tideline.replaying(bigint, int8range), tideline.reserving(bigint, int8range), tideline.undoing(text), tideline.names(text, text), tideline.names(text, text, text)
    TO PUBLIC;
