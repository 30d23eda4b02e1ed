/* Debian has no libudev.a. libhwloc.a uses it only for the names of block devices, which Muster does not read. So these
 * functions find nothing. They have the signatures of libudev.h, whose objects are opaque. */
#include <stddef.h>

void* udev_new(void) {
  return NULL;
}
void* udev_unref(void* udev) {
  return udev;
}
void* udev_device_new_from_subsystem_sysname(void* udev, const char* subsystem, const char* name) {
  (void)udev;
  (void)subsystem;
  (void)name;
  return NULL;
}
const char* udev_device_get_property_value(void* device, const char* key) {
  (void)device;
  (void)key;
  return NULL;
}
void* udev_device_unref(void* device) {
  return device;
}
