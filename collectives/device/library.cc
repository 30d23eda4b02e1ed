#include "collectives/device/library.h"

#include <dlfcn.h>

namespace muster::collectives::device {

base::Result<Library> Library::open(const char* name) {
  void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle != nullptr) return Library(handle, name);
  const char* const why = dlerror();
  return base::not_found("{} cannot be loaded: {}", name, why == nullptr ? "no reason given" : why);
}

void* Library::find(const char* symbol) const {
  return dlsym(handle_, symbol);
}

}  // namespace muster::collectives::device
