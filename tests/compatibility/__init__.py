"""Tests of this project with the oldest and the newest versions of what it meets: `make compatibility`."""
