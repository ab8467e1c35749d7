"""Who has used how much of the pool, and what each may have: accounts, groups, quotas, limits."""

from pool.accounting.accounts import Accountant, Factors, SubmitterAccount, SubmitterUse
from pool.accounting.groups import Group, GroupTree

__all__ = ["Accountant", "Factors", "Group", "GroupTree", "SubmitterAccount", "SubmitterUse"]
