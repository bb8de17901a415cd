-- retired -> stopped: a topic that an operator had given up exists again. The head does not move.
UPDATE tideline.stream SET state = 'stopped', stopped_because = %(because)s WHERE stream_id = %(stream_id)s AND state = 'retired';
