"""Carriers of packets between a server and its units, and accounts of them."""

from ..message.packet import Failure, Packet, PacketError
from .envelope import read_key, write_key
from .files import FileLoopback, FileSite, FileTransport
from .gate import Gate
from .ledger import Ledger, StreamLedger
from .lost import ClientError, LostUnits, LostUnitWarning
from .policy import ExactStatesWarning, PolicyError, SitePolicy, WorstCase
from .signatures import KeyPair, read_key_pair, revoke_key, write_key_pair
from .site_ledger import ByteLimitError, LedgerError, SiteLedger, verify_ledger
from .transport import InProcessTransport, Transport, Worker

__all__ = [
    "ByteLimitError", "ClientError", "ExactStatesWarning", "Failure", "FileLoopback", "FileSite", "FileTransport",
    "Gate", "InProcessTransport", "KeyPair", "Ledger", "LedgerError", "LostUnitWarning", "LostUnits", "Packet",
    "PacketError", "PolicyError", "SiteLedger", "SitePolicy", "StreamLedger", "Transport", "Worker", "WorstCase",
    "read_key", "read_key_pair", "revoke_key", "verify_ledger", "write_key", "write_key_pair",
]  # fmt: skip
