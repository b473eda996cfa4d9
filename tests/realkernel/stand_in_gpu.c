/*
 * A "GPU" for QEMU: its own secondary VGA and HD audio devices under NVIDIA's ids.
 *
 * No stock QEMU device carries vendor 10de.  This library is preloaded into QEMU and registers two more
 * device types whose class differs from the parent's in the ids alone.  The layout of the class is not
 * known here; the parent's own ids are looked for in the copy that QEMU makes of its class.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As in include/qom/object.h of QEMU 7.2 to 10.0. */
typedef struct {
    const char *name, *parent;
    size_t instance_size, instance_align;
    void (*instance_init)(void *), (*instance_post_init)(void *), (*instance_finalize)(void *);
    _Bool abstract;
    size_t class_size;
    void (*class_init)(void *, void *), (*class_base_init)(void *, void *);
    void *class_data, *interfaces;
} TypeInfo;

extern void *type_register_static(const TypeInfo *info);

typedef struct {
    uint16_t vendor, device;
} Ids;

/* As in include/hw/pci/pci.h: vendor, device, revision, class. */
enum { SCAN_BYTES = 1024, CLASS_OFFSET = 6 };

static void rename_ids(void *class, Ids old, Ids new, uint16_t class_id)
{
    unsigned char *bytes = class;
    for (size_t at = 0; at < SCAN_BYTES; at += 2) {
        if (memcmp(bytes + at, &old, sizeof old) == 0) {
            memcpy(bytes + at, &new, sizeof new);
            memcpy(bytes + at + CLASS_OFFSET, &class_id, sizeof class_id);
            return;
        }
    }
    fprintf(stderr, "stand-in-gpu: the parent's ids %04x:%04x are not in its class\n", old.vendor, old.device);
    exit(1);
}

static void gpu_class(void *class, void *data)
{
    (void)data;
    rename_ids(class, (Ids){0x1234, 0x1111}, (Ids){0x10de, 0x2bb5}, 0x0302);
}

static void audio_class(void *class, void *data)
{
    (void)data;
    rename_ids(class, (Ids){0x8086, 0x293e}, (Ids){0x10de, 0x22e8}, 0x0403);
}

static const TypeInfo GPU = {.name = "stand-in-gpu", .parent = "secondary-vga", .class_init = gpu_class};
static const TypeInfo AUDIO = {.name = "stand-in-gpu-audio", .parent = "ich9-intel-hda", .class_init = audio_class};

__attribute__((constructor)) static void register_types(void)
{
    type_register_static(&GPU);
    type_register_static(&AUDIO);
}
