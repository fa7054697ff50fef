"""Offers tightdp's bounds through dp_accounting's interface: accountants, events and privacy loss distributions.

    from tightdp.adapters.dp_accounting import TightDPAccountant

    accountant = TightDPAccountant()  # takes the place of dp_accounting's PLDAccountant()
    accountant.compose(event).get_epsilon(1e-5)

The class that takes the place of dp_accounting's RdpAccountant is called ``RdpAccountant`` here, too.

The package is written for dp_accounting 0.6. Events of later versions are accepted if the installed version has them.
"""

from .accountant import RdpAccountant, TightDPAccountant
from .distribution import privacy_loss_distribution
from .events import from_event, to_event

__all__ = ["RdpAccountant", "TightDPAccountant", "from_event", "privacy_loss_distribution", "to_event"]
