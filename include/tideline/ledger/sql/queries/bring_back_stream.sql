-- retired -> stopped: the topic that a person had given up is there again. The head stays where it was.
UPDATE tideline.stream SET state = 'stopped', stopped_because = %(because)s WHERE stream_id = %(stream_id)s AND state = 'retired';
