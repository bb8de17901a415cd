"""What each command shows: a page of tables for people, and a document for programs."""
