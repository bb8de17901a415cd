-- Show who has set the settings of this session. It takes no snapshot: the isolation level of the transaction may still be set.
SHOW tideline.session;
