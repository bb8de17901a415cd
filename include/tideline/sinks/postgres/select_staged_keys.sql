-- The keys of the rows that the winning tasks have staged. There is no semicolon, because another statement contains
-- this one.
SELECT {key}, tideline_stream FROM {staging} WHERE tideline_task = ANY (%(tasks)s)
