"""Seeded fault injection: damaged and foreign files, killed processes, concurrent writers, full disks.

Every part has a module of faults, which the tests run with few cases and ``make campaign`` with many.
"""
