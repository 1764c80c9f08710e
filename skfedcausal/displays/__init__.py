"""Pictures of what the estimators found. They only draw; the numbers are the estimators'."""

from .links import LinkMatrixDisplay

__all__ = ["LinkMatrixDisplay"]
