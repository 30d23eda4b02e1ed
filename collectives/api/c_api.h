// What the files of the C ABI share: its handles, and how results cross it. Nothing throws across it but
// std::bad_alloc, which becomes MUSTER_NO_MEMORY.
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
// Of c_api_device.cc.
struct AttachedGpu;
struct InheritedGpu;
}  // namespace muster::collectives::api

struct muster_comm {
  std::shared_ptr<muster::collectives::Communicator> communicator;
  std::shared_ptr<muster::collectives::api::AttachedGpu> gpu{};         // null: not attached; uses the communicator
  std::shared_ptr<muster::collectives::api::InheritedGpu> inherited{};  // null: none, or attached
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

// Elements of one block: no product of it with an element's size and a number of ranks overflows.
inline constexpr std::size_t kMaxCount = std::size_t{1} << 44;

// The code; of a failure with a new *error, where that is wanted. `communicator` (may be null) knows whose it was.
muster_code report(const base::Status& status, const Communicator* communicator, muster_error** error);
// `whose`: what is known of the failure, if its code is the status's.
muster_code report(const base::Status& status, const Failure& whose, muster_error** error);
muster_code report_no_memory(muster_error** error);

// The only place where an exception of the standard library can come from is an allocation.
template <typename Body>
muster_code guarded(muster_error** error, const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return report_no_memory(error);
  }
}

// Communicator::split(), and of what the communicator has on its GPU. Null: none for this rank.
base::Result<std::unique_ptr<muster_comm>> split(const muster_comm& comm, int color, int key, Failure* why);

// Before a communicator is freed: its ranks meet, where what one of them has on its GPU could be cut off by another.
void part_on_gpu(const muster_comm& comm);

template <typename Operation>
muster_code call(muster_comm* comm, muster_error** error, const Operation& operation) {
  return guarded(error, [&] { return report(operation(*comm->communicator), comm->communicator.get(), error); });
}

}  // namespace muster::collectives::api
