def write_report(home, *rest):
    return home / "report.html"
