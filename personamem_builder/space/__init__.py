"""A leaderboard as a static Space: scores beside their floors, in groups, with the viewer and the audit."""
