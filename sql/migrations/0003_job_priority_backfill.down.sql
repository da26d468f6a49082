-- Nothing to undo: the rows mean what they meant.
SELECT 1;
