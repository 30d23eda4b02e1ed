#include "launcherd/bootstrap/bootstrap.h"

namespace muster::launcherd::inline bootstrap {

JoinSource ready_join(base::Result<std::string> join) {
  std::promise<base::Result<std::string>> promise;
  promise.set_value(std::move(join));
  return promise.get_future().share();
}

}  // namespace muster::launcherd::bootstrap
