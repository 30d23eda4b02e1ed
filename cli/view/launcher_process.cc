#include "cli/view/launcher_process.h"

#include <signal.h>

#include "base/descriptor_limit.h"
#include "base/thread.h"
#include "cli/hosts/surroundings.h"

namespace muster::cli::inline view {

base::Result<Signals> prepare_launcher(const std::vector<int>& signals, int threads) {
  base::Result<Signals> blocked = Signals::block(signals);
  if (!blocked.ok()) return blocked;
  ::signal(SIGPIPE, SIG_IGN);
  hide_memory();
  base::raise_descriptor_limit();
  MUSTER_RETURN_IF_ERROR(base::check_thread_room(threads));
  return blocked;
}

}  // namespace muster::cli::view
