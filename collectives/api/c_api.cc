// The C ABI: errors, the world, communicators, shared memory, requests.
// Read report() and timeout_of() first; the functions after them are in the order of muster.h.
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "collectives/api/c_api.h"

using muster::base::Code;
using muster::base::Status;
using muster::collectives::Communicator;
using muster::collectives::Failure;
using muster::collectives::World;
using muster::collectives::WorldOptions;
using muster::collectives::api::call;
using muster::collectives::api::detach_from_gpu;
using muster::collectives::api::guarded;
using muster::collectives::api::report;

namespace {

muster_code code_of(Code code) {
  switch (code) {
    case Code::kOk:
      return MUSTER_OK;
    case Code::kInvalidArgument:
    case Code::kAlreadyExists:  // the engine reports that the name is in use
    case Code::kNotFound:       // the GPU functions report that there is no driver
      return MUSTER_INVALID;
    case Code::kDeadlineExceeded:
      return MUSTER_TIMEOUT;
    case Code::kResourceExhausted:
      return MUSTER_NO_MEMORY;
    case Code::kFailedPrecondition:
      return MUSTER_MISMATCH;
    case Code::kAborted:
      return MUSTER_FAILED;
    case Code::kUnavailable:
      return MUSTER_RANK_DIED;
    case Code::kUnauthenticated:
    case Code::kPermissionDenied:
      return MUSTER_DENIED;
    default:
      return MUSTER_INTERNAL;
  }
}

// A forked child must not free the objects that it has inherited. Their threads do not exist there, and the memory and
// sessions belong to the parent.
bool is_ours(Communicator& communicator) {
  return communicator.world().is_of_this_process();
}

// `make` fills a Failure. That failure belongs to the new communicator, so it may differ from the old one's.
template <typename Make>
muster_code make_comm(muster_comm** made, muster_error** error, const Make& make) {
  *made = nullptr;
  return guarded(error, [&] {
    Failure why;
    auto result = make(&why);
    if (!result.ok()) return report(result.status(), why, error);
    *made = result->release();
    return MUSTER_OK;
  });
}

muster::base::Result<std::unique_ptr<muster_comm>> handle_of(
    muster::base::Result<std::shared_ptr<Communicator>> communicator) {
  if (!communicator.ok()) return communicator.status();
  return std::make_unique<muster_comm>(muster_comm{std::move(*communicator)});
}

// Returns `seconds`, or the setting (MUSTER_OPERATION_TIMEOUT for operations), or else the default.
muster::base::Result<std::chrono::milliseconds> timeout_of(double seconds, const char* setting,
                                                           std::chrono::milliseconds otherwise) {
  if (seconds == 0 && setting != nullptr && *setting != '\0') {
    char* end = nullptr;
    seconds = std::strtod(setting, &end);
    if (*end != '\0' || !(seconds > 0)) {
      return muster::base::invalid_argument("MUSTER_OPERATION_TIMEOUT={}: use a number of seconds above 0", setting);
    }
  }
  if (seconds == 0) return otherwise;
  if (!(seconds > 0) || seconds > 1e9) {
    return muster::base::invalid_argument("{} is not a valid timeout: use a number of seconds above 0", seconds);
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1000)));
}

muster::base::Result<muster::collectives::Meeting> meeting_of(const muster_meeting& given) {
  if (given.size < 1 || given.rank < 0 || given.rank >= given.size || given.publish == nullptr ||
      given.find == nullptr) {
    return muster::base::invalid_argument(
        "muster_meeting: rank {} of {}: it needs 0 <= rank < size, and the functions publish and find", given.rank,
        given.size);
  }
  muster::collectives::Meeting meeting{.rank = given.rank, .size = given.size, .publish = {}, .find = {}};
  meeting.publish = [&given](const std::string& text) {
    if (given.publish(given.context, text.data(), text.size()) == 0) return Status();
    return muster::base::unavailable("the address of rank 0 could not be published");
  };
  meeting.find = [&given]() -> muster::base::Result<std::string> {
    std::string text(muster::collectives::kMaxMeetingText, '\0');
    const long bytes = given.find(given.context, text.data(), text.size());
    if (bytes < 0 || static_cast<std::size_t>(bytes) > text.size()) {
      return muster::base::unavailable("the search for the address of rank 0 has failed");
    }
    text.resize(static_cast<std::size_t>(bytes));
    return text;
  };
  if (given.is_over == nullptr) return meeting;
  meeting.check = [&given] {
    if (given.is_over(given.context) == 0) return Status();
    return muster::base::unavailable("this world can no longer form, because one of its ranks has ended");
  };
  return meeting;
}

muster::base::Result<std::shared_ptr<World>> join_world(const muster_options& given, const WorldOptions& options,
                                                        Failure* why) {
  if (given.meeting == nullptr) return World::join(options, why);
  MUSTER_ASSIGN_OR_RETURN(const muster::collectives::Meeting meeting, meeting_of(*given.meeting));
  return World::join(options, meeting, why);
}

// Options of programs that were compiled before `meeting` was appended end where it begins.
bool is_known_size(std::size_t size) {
  return size == sizeof(muster_options) || size == offsetof(muster_options, meeting);
}

muster_code init(const muster_options* options, muster_world** world, muster_error** error) {
  muster_options given{};
  if (options != nullptr) {
    if (!is_known_size(options->size)) {
      return report(Status(Code::kInvalidArgument, "muster_options.size must be sizeof(muster_options)"), nullptr,
                    error);
    }
    std::memcpy(&given, options, options->size);
  }
  WorldOptions wanted;
  auto deadline = timeout_of(given.timeout_seconds, std::getenv("MUSTER_OPERATION_TIMEOUT"), wanted.deadline);
  if (!deadline.ok()) return report(deadline.status(), nullptr, error);
  auto join = timeout_of(given.join_seconds, nullptr, wanted.join_deadline);
  if (!join.ok()) return report(join.status(), nullptr, error);
  wanted.deadline = *deadline;
  wanted.join_deadline = *join;
  Failure why;
  auto joined = join_world(given, wanted, &why);
  if (!joined.ok()) return report(joined.status(), why, error);
  auto all = Communicator::of_world(*joined, &why);
  if (!all.ok()) return report(all.status(), why, error);
  muster::collectives::status_enter_world((*joined)->rank(), (*joined)->size());
  *world = new muster_world{std::move(*joined), {std::move(*all)}};
  return MUSTER_OK;
}

}  // namespace

muster_code muster::collectives::api::report(const Status& status, const Failure& failure, muster_error** error) {
  if (status.ok()) return MUSTER_OK;
  const muster_code code = code_of(status.code());
  if (error == nullptr) return code;
  *error = new (std::nothrow) muster_error{code, status.message(), -1, {}};
  if (*error != nullptr && failure.code == status.code()) {
    (*error)->rank = failure.rank;
    (*error)->host = failure.host;
  }
  return code;
}

muster_code muster::collectives::api::report(const Status& status, const Communicator* communicator,
                                             muster_error** error) {
  return report(status, status.ok() || communicator == nullptr ? Failure{} : communicator->failure(), error);
}

muster_code muster::collectives::api::report_no_memory(muster_error** error) {
  return report(Status(Code::kResourceExhausted, "out of memory for libmuster's own objects"), nullptr, error);
}

const char* muster_error_message(const muster_error* error) {
  return error == nullptr ? "" : error->message.c_str();
}
muster_code muster_error_code(const muster_error* error) {
  return error == nullptr ? MUSTER_OK : error->code;
}
int muster_error_rank(const muster_error* error) {
  return error == nullptr ? -1 : error->rank;
}
const char* muster_error_host(const muster_error* error) {
  return error == nullptr ? "" : error->host.c_str();
}
void muster_error_free(muster_error* error) {
  delete error;
}
const char* muster_version(void) {
  return MUSTER_VERSION;
}
size_t muster_dtype_size(muster_dtype type) {
  return static_cast<unsigned>(type) < muster::collectives::kDTypes
             ? size_of(static_cast<muster::collectives::DType>(type))
             : 0;
}

muster_code muster_init(const muster_options* options, muster_world** world, muster_error** error) {
  *world = nullptr;
  return guarded(error, [&] { return init(options, world, error); });
}
void muster_finalize(muster_world* world) {
  if (world == nullptr || !world->world->is_of_this_process()) return;
  detach_from_gpu(world->all);
  muster::collectives::status_leave_world();
  delete world;
}
void muster_heartbeat(int64_t step) {
  try {
    muster::collectives::status_heartbeat(step);
  } catch (const std::bad_alloc&) {
    // The next beat tries again. A program must not fail because of a heartbeat.
    return;
  }
}
void muster_world_rank_failed(muster_world* world, int rank, const char* cause) {
  if (world == nullptr || !world->world->is_of_this_process()) return;
  world->world->rank_failed(rank, cause == nullptr ? "has failed" : cause);
}
muster_comm* muster_world_comm(muster_world* world) {
  return &world->all;
}

int muster_comm_rank(const muster_comm* comm) {
  return comm->communicator->rank();
}
int muster_comm_size(const muster_comm* comm) {
  return comm->communicator->size();
}
int muster_comm_local_rank(const muster_comm* comm) {
  return comm->communicator->local_rank();
}
int muster_comm_local_size(const muster_comm* comm) {
  return comm->communicator->local_size();
}
int muster_comm_hosts(const muster_comm* comm) {
  return comm->communicator->hosts();
}
int muster_comm_world_rank(const muster_comm* comm, int rank) {
  return rank < 0 || rank >= comm->communicator->size() ? -1 : comm->communicator->world_rank(rank);
}

muster_code muster_comm_split(muster_comm* comm, int color, int key, muster_comm** made, muster_error** error) {
  return make_comm(made, error, [&](Failure* why) { return muster::collectives::api::split(*comm, color, key, why); });
}
muster_code muster_comm_group(muster_comm* comm, const int* ranks, int count, muster_comm** made,
                              muster_error** error) {
  return make_comm(made, error, [&](Failure* why) -> muster::base::Result<std::unique_ptr<muster_comm>> {
    if (ranks == nullptr || count < 1) return Status(Code::kInvalidArgument, "a group needs at least one rank");
    return handle_of(comm->communicator->group({ranks, static_cast<std::size_t>(count)}, why));
  });
}
muster_code muster_comm_shrink(muster_comm* comm, muster_comm** made, muster_error** error) {
  return make_comm(made, error, [&](Failure* why) { return handle_of(comm->communicator->shrink(why)); });
}
void muster_comm_free(muster_comm* comm) {
  if (comm == nullptr || !is_ours(*comm->communicator)) return;
  detach_from_gpu(*comm);
  delete comm;
}

muster_code muster_buffer_alloc(muster_comm* comm, size_t bytes, void** data, muster_error** error) {
  *data = nullptr;
  return call(comm, error, [&](Communicator& on) {
    MUSTER_ASSIGN_OR_RETURN(*data, on.allocate(bytes));
    return Status();
  });
}
muster_code muster_buffer_free(muster_comm* comm, void* data, muster_error** error) {
  return call(comm, error, [&](Communicator& on) {
    if (is_ours(on)) return on.release(static_cast<std::byte*>(data));
    return Status(Code::kInvalidArgument, "this buffer belongs to the parent of this forked process");
  });
}

muster_code muster_test(muster_request* request, int* done) {
  *done = request->request->test().has_value() ? 1 : 0;
  return MUSTER_OK;
}
muster_code muster_wait(muster_request* request, double seconds, muster_error** error) {
  return guarded(error, [&] {
    const bool is_limited = seconds >= 0 && seconds < 1e9;  // false for NaN, too
    if (!is_limited) return report(request->request->wait(), request->communicator.get(), error);
    const auto done = request->request->wait_for(std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000)));
    return done ? report(*done, request->communicator.get(), error) : MUSTER_TIMEOUT;
  });
}
void muster_request_free(muster_request* request) {
  if (request == nullptr || !is_ours(*request->communicator)) return;
  delete request;
}

const char* muster_last_algorithm(const muster_comm* comm) {
  return muster::collectives::name_of(comm->communicator->last_algorithm()).data();
}
