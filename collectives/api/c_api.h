// Shared by the files of the C ABI: its handles, and how results cross it. No exception crosses it: std::bad_alloc
// becomes MUSTER_NO_MEMORY, and nothing else throws.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <string>

#include "base/status.h"
#include "collectives/call/request.h"
#include "collectives/group/communicator.h"
#include "collectives/group/world.h"
#include "collectives/include/muster/muster.h"

struct muster_error {
  muster_code code = MUSTER_INTERNAL;
  std::string message;
  int rank = -1;
  std::string host;
};

namespace muster::collectives::api {
// These are defined in c_api_device.cc.
struct AttachedGpu;
struct InheritedGpu;
}  // namespace muster::collectives::api

struct muster_comm {
  std::shared_ptr<muster::collectives::Communicator> communicator;
  std::shared_ptr<muster::collectives::api::AttachedGpu> gpu{};         // null if not attached; uses the communicator
  std::shared_ptr<muster::collectives::api::InheritedGpu> inherited{};  // null if nothing was inherited, or if attached
};

struct muster_world {
  std::shared_ptr<muster::collectives::World> world;
  muster_comm all;
};

struct muster_request {
  std::shared_ptr<muster::collectives::Communicator> communicator;
  std::shared_ptr<muster::collectives::Request> request;
};

namespace muster::collectives::api {

// Limit on a block's elements. Its product with an element's size and the number of ranks does not overflow.
inline constexpr std::size_t kMaxCount = std::size_t{1} << 44;

// Returns the code. After a failure it sets a new *error, unless `error` is null. The failure of `communicator` (may be
// null) names the rank that failed.
muster_code report(const base::Status& status, const Communicator* communicator, muster_error** error);
// `failure` names the rank that failed, if its code equals that of `status`.
muster_code report(const base::Status& status, const Failure& failure, muster_error** error);
muster_code report_no_memory(muster_error** error);

// Runs `body`. Only an allocation can throw in the standard library functions that it uses.
template <typename Body>
muster_code guarded(muster_error** error, const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return report_no_memory(error);
  }
}

// Does Communicator::split(), and splits the communicator's part on its GPU. Null if this rank gets no communicator.
base::Result<std::unique_ptr<muster_comm>> split(const muster_comm& comm, int color, int key, Failure* why);

// Called before a communicator is freed. Its ranks meet if one of them could cut off GPU work of another one.
void detach_from_gpu(const muster_comm& comm);

template <typename Operation>
muster_code call(muster_comm* comm, muster_error** error, const Operation& operation) {
  return guarded(error, [&] { return report(operation(*comm->communicator), comm->communicator.get(), error); });
}

}  // namespace muster::collectives::api
