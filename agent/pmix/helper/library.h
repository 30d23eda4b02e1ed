// libpmix of the host, found when it is needed: the functions that a server uses. A plain value; the library stays
// loaded for as long as the process lives.
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

// NOT_FOUND: there is none, with the packages that have it. UNIMPLEMENTED: older than 4.2. One sentence each, without
// the host's name.
base::Result<Library> load_library();

}  // namespace muster::agent::pmix
