"""The PCI fabric: addresses, configuration space, tree, ACS, IOMMU groups, identity, paths."""
