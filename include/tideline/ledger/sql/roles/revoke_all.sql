-- Take from a role every right on the ledger, so that it has no more than what is granted next.
REVOKE ALL ON ALL TABLES IN SCHEMA tideline FROM {role};
REVOKE ALL ON ALL SEQUENCES IN SCHEMA tideline FROM {role};
REVOKE ALL ON ALL ROUTINES IN SCHEMA tideline FROM {role};
REVOKE ALL ON SCHEMA tideline, tideline_staging FROM {role};
