#include "agent/pmix/helper/library.h"

#include <dlfcn.h>

#include <array>

#include "agent/pmix/find_library.h"

namespace muster::agent::pmix {
namespace {

// The library's name for programs since version 2, then the name in its development package.
constexpr auto kNames = std::to_array<const char*>({"libpmix.so.2", "libpmix.so"});

template <typename Function>
bool find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  return function != nullptr;
}

}  // namespace

base::Result<Library> load_library() {
  void* handle = nullptr;
  for (const char* name : kNames) {
    if (handle == nullptr) handle = ::dlopen(name, RTLD_NOW | RTLD_GLOBAL);
  }
  if (handle == nullptr) {
    const char* why = ::dlerror();
    return base::not_found(
        "the library libpmix.so.2, through which Open MPI's ranks find each other, cannot be loaded ({}): {}",
        why == nullptr ? "not found" : why, kHowToInstall);
  }
  Library found;
  decltype(&PMIx_Get_version) get_version = nullptr;
  if (find(handle, "PMIx_Get_version", get_version)) found.version = get_version();
  const bool has_all = find(handle, "PMIx_server_init", found.server_init) &&
                       find(handle, "PMIx_server_register_nspace", found.register_nspace) &&
                       find(handle, "PMIx_server_register_client", found.register_client) &&
                       find(handle, "PMIx_server_setup_fork", found.setup_fork) &&
                       find(handle, "PMIx_server_dmodex_request", found.dmodex_request) &&
                       find(handle, "PMIx_generate_regex", found.generate_regex) &&
                       find(handle, "PMIx_generate_ppn", found.generate_ppn) &&
                       find(handle, "PMIx_Info_load", found.info_load) &&
                       find(handle, "PMIx_Error_string", found.error_string);
  if (has_all) return found;
  return base::unimplemented("libpmix here is older than 4.2 ({}), which Muster cannot use: update it",
                             found.version.empty() ? "it does not report its version" : found.version);
}

}  // namespace muster::agent::pmix
