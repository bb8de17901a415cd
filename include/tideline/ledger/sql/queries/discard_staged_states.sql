-- Delete staged states that are not the last of their key: those of losing tasks, and those of keys that have expired afterwards.
DELETE FROM {staging} s
WHERE phase = 1 AND (tideline_task <> ALL (%(folding)s) OR EXISTS (
          SELECT FROM {staging} later WHERE later.phase = 2 AND later.tideline_task = ANY (%(expiring)s) AND later.key = s.key))
   OR phase = 2 AND tideline_task <> ALL (%(expiring)s);
