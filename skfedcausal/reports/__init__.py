"""Reports: one page each, to be read by people who were not there."""

from .impact import impact_page, whatif_page
from .incident import incident_page
from .plant import plant_page

__all__ = ["impact_page", "incident_page", "plant_page", "whatif_page"]
