"""Offline checks of SQL in specs: functions, relations and syntax."""
