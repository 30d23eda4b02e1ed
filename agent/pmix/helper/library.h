// The functions of the host's libpmix that a server uses, found at run time. A plain value. The library stays loaded
// as long as the process lives.
#pragma once

#include <pmix.h>
#include <pmix_server.h>

#include <string>

#include "base/status.h"

namespace muster::agent::pmix {

struct Library {
  decltype(&PMIx_server_init) server_init = nullptr;
  decltype(&PMIx_server_register_nspace) register_nspace = nullptr;
  decltype(&PMIx_server_register_client) register_client = nullptr;
  decltype(&PMIx_server_setup_fork) setup_fork = nullptr;
  decltype(&PMIx_server_dmodex_request) dmodex_request = nullptr;
  decltype(&PMIx_generate_regex) generate_regex = nullptr;
  decltype(&PMIx_generate_ppn) generate_ppn = nullptr;
  decltype(&PMIx_Info_load) info_load = nullptr;
  decltype(&PMIx_Error_string) error_string = nullptr;
  std::string version;
};

// NOT_FOUND: the host has no libpmix; the text names the packages. UNIMPLEMENTED: it is older than 4.2. Each text is
// one sentence without the host's name.
base::Result<Library> load_library();

}  // namespace muster::agent::pmix
