"""The QEMU command line that Proxmox makes of a VM's configuration, predicted from the configuration alone.

As far as passed-through devices are concerned: PCI, CPU, machine, memory and NUMA, ``args``.  Disks, network and
firmware files are left out.  Source: qemu-server src/PVE/QemuServer.pm and its PCI, CPUConfig, Machine and Memory
modules, checked against recorded commands.
"""
