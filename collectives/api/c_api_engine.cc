// The C ABI of the engine: checks submissions and converts their types.
// Read the checks first, from check_data() to gpu_of(), then the functions, which are in the order of engine.h.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "collectives/api/c_api.h"
#include "collectives/engine/engine.h"
#include "collectives/include/muster/engine.h"

using muster::base::Code;
using muster::base::Result;
using muster::base::Status;
using muster::collectives::DType;
using muster::collectives::Engine;
using muster::collectives::EngineSettings;
using muster::collectives::Failure;
using muster::collectives::Kind;
using muster::collectives::Output;
using muster::collectives::RedOp;
using muster::collectives::Submission;
using muster::collectives::TensorSpec;
using muster::collectives::Ticket;
using muster::collectives::api::guarded;
using muster::collectives::api::report;
using muster::collectives::device::CudaApi;
using muster::collectives::device::Event;
using muster::collectives::device::Gpu;

struct muster_engine {
  std::unique_ptr<Engine> engine;
  std::mutex gpu_mutex{};
  std::shared_ptr<Gpu> gpu{};  // null until the first tensor on a GPU
};
struct muster_ticket {
  std::shared_ptr<Ticket> ticket;
};

namespace {

constexpr int kMostDimensions = 64;

std::chrono::milliseconds milliseconds_of(double seconds) {
  const bool is_limited = seconds >= 0 && seconds < 1e9;  // false for NaN, too
  return std::chrono::milliseconds(is_limited ? static_cast<std::int64_t>(seconds * 1000) : std::int64_t{1} << 40);
}

Result<TensorSpec> spec_of(const muster_tensor& tensor, const char* name) {
  if (static_cast<unsigned>(tensor.type) >= muster::collectives::kDTypes) {
    return muster::base::invalid_argument("'{}': unknown data type {}", name, static_cast<int>(tensor.type));
  }
  if (tensor.dimensions < 0 || tensor.dimensions > kMostDimensions ||
      (tensor.dimensions > 0 && tensor.shape == nullptr)) {
    return muster::base::invalid_argument("'{}': {} dimensions are not valid, or the shape is NULL", name,
                                          tensor.dimensions);
  }
  return TensorSpec{static_cast<DType>(tensor.type), {tensor.shape, tensor.shape + tensor.dimensions}};
}

// The struct's sizes in all versions. Each earlier version ends before the members that were added later.
constexpr std::size_t kSizes[] = {offsetof(muster_submission, on_gpu), offsetof(muster_submission, wire),
                                  offsetof(muster_submission, allocate), offsetof(muster_submission, alone),
                                  sizeof(muster_submission)};

Result<muster_submission> complete(const muster_submission* given) {
  muster_submission copy{};
  if (given == nullptr || std::ranges::find(kSizes, given->size) == std::end(kSizes) || given->name == nullptr) {
    return Status(Code::kInvalidArgument, "a submission needs a name, and its size must be sizeof(muster_submission)");
  }
  std::memcpy(&copy, given, given->size);
  return copy;
}

Status check(const muster_submission* given) {
  if (static_cast<unsigned>(given->kind) >= muster::collectives::kKinds ||
      static_cast<unsigned>(given->op) >= muster::collectives::kRedOps || given->count < 0 ||
      (given->count > 0 && given->tensors == nullptr)) {
    return muster::base::invalid_argument("'{}': unknown operation {} or reduction {}, or its {} tensors are missing",
                                          given->name, static_cast<int>(given->kind), static_cast<int>(given->op),
                                          given->count);
  }
  return {};
}

// Checks that data is not NULL if the operation reads or writes it.
Status check_data(const Submission& submission, std::size_t index) {
  const bool writes_it = submission.signature.kind == Kind::kAllreduce || submission.signature.kind == Kind::kAdasum ||
                         submission.signature.kind == Kind::kBroadcast;
  const auto& tensor = submission.tensors[index];
  if (submission.signature.tensors[index].elements() == 0 || submission.signature.kind == Kind::kBuffer) return {};
  if (tensor.in != nullptr && (!writes_it || tensor.out != nullptr)) return {};
  return muster::base::invalid_argument("'{}': tensor {} has no data", submission.name, index);
}

Result<std::optional<DType>> wire_of(const muster_submission& given) {
  switch (given.wire) {
    case MUSTER_WIRE_SAME:
      return std::optional<DType>();
    case MUSTER_WIRE_FLOAT16:
      return std::optional(DType::kF16);
    case MUSTER_WIRE_BFLOAT16:
      return std::optional(DType::kBF16);
  }
  return muster::base::invalid_argument("'{}': unknown wire type {}", given.name, static_cast<int>(given.wire));
}

Result<Submission> submission_of(const Engine& engine, const muster_submission* given) {
  MUSTER_RETURN_IF_ERROR(check(given));
  Submission made;
  made.name = given->name;
  made.signature.kind = static_cast<Kind>(given->kind);
  made.signature.op = static_cast<RedOp>(given->op);
  if (made.signature.kind == Kind::kBroadcast) made.signature.root = given->root;
  made.signature.before = given->prescale;
  made.signature.after = given->postscale;
  made.signature.is_on_gpu = given->on_gpu != 0;
  made.signature.is_alone = given->alone != 0;
  MUSTER_ASSIGN_OR_RETURN(made.signature.wire, wire_of(*given));
  for (int i = 0; i < given->count; ++i) {
    MUSTER_ASSIGN_OR_RETURN(TensorSpec spec, spec_of(given->tensors[i], given->name));
    made.signature.tensors.push_back(std::move(spec));
    made.tensors.push_back({given->tensors[i].in, given->tensors[i].out});
  }
  if (made.signature.kind == Kind::kAlltoall && given->splits != nullptr) {
    made.signature.splits.assign(given->splits, given->splits + engine.size());
  }
  if (given->allocate != nullptr) {
    made.allocate = [allocate = given->allocate, context = given->context](int index, std::size_t bytes) {
      return allocate(context, index, bytes);
    };
  }
  MUSTER_RETURN_IF_ERROR(check(made.signature, engine.size()));
  for (std::size_t i = 0; i < made.tensors.size(); ++i) MUSTER_RETURN_IF_ERROR(check_data(made, i));
  return made;
}

// Returns the memory that must lie on the GPU: a tensor, and its result if it has memory. For an empty tensor, returns
// any pointer that identifies the GPU.
std::vector<const void*> places_of(const Submission& submission, std::size_t index) {
  const auto& tensor = submission.tensors[index];
  std::vector<const void*> places;
  if (submission.signature.tensors[index].elements() == 0) {
    if (tensor.in != nullptr) places.push_back(tensor.in);
    return places;
  }
  places.push_back(tensor.in);
  if (tensor.out != nullptr) places.push_back(tensor.out);
  return places;
}

// Returns the GPU of a submission's tensors, which must be the GPU of earlier submissions. Null if all tensors are
// empty and no pointer names a GPU.
Result<std::shared_ptr<Gpu>> gpu_of(muster_engine& engine, const Submission& submission) {
  const std::lock_guard lock(engine.gpu_mutex);
  std::shared_ptr<const CudaApi> api;
  if (engine.gpu == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(api, CudaApi::load());
  }
  bool is_known = false;
  for (std::size_t i = 0; i < submission.tensors.size(); ++i) {
    for (const void* const data : places_of(submission, i)) {
      is_known = true;
      const int ordinal = engine.gpu == nullptr ? device_of(*api, data) : device_of(*engine.gpu, data);
      if (ordinal < 0) {
        return muster::base::invalid_argument("'{}': tensor {} is not memory of a GPU", submission.name, i);
      }
      if (engine.gpu == nullptr) {
        MUSTER_ASSIGN_OR_RETURN(engine.gpu, Gpu::open(api, ordinal));
      }
      if (engine.gpu->ordinal() == ordinal) continue;
      return muster::base::invalid_argument(
          "'{}': tensor {} is on GPU {}, and this rank's collectives are on GPU {}: use one GPU per rank",
          submission.name, i, ordinal, engine.gpu->ordinal());
    }
  }
  return is_known ? engine.gpu : std::shared_ptr<Gpu>();
}

Status mark(muster_engine& engine, void* stream, Submission& submission) {
  MUSTER_ASSIGN_OR_RETURN(const std::shared_ptr<Gpu> gpu, gpu_of(engine, submission));
  if (gpu == nullptr) return {};
  MUSTER_ASSIGN_OR_RETURN(Event event, muster::collectives::device::mark(gpu, stream));
  submission.gpu = gpu->ordinal();
  submission.ready = std::make_shared<const Event>(std::move(event));
  return {};
}

Status forked_status() {
  return {Code::kInvalidArgument, "a forked child process cannot take part in collectives"};
}

muster_code start(muster_comm* comm, bool writes_files, muster_engine** engine, muster_error** error) {
  auto settings = EngineSettings::from_environment();
  if (!settings.ok()) return report(settings.status(), nullptr, error);
  if (!writes_files) {
    settings->timeline.clear();
    settings->autotune.log.clear();
  }
  auto started = Engine::start(*comm->communicator, *settings);
  if (!started.ok()) return report(started.status(), comm->communicator.get(), error);
  *engine = new muster_engine{std::move(*started)};
  return MUSTER_OK;
}

}  // namespace

muster_code muster_engine_start(muster_comm* comm, int writes_files, muster_engine** engine, muster_error** error) {
  *engine = nullptr;
  return guarded(error, [&] { return start(comm, writes_files != 0, engine, error); });
}
void muster_engine_shut_down(muster_engine* engine, double seconds) {
  if (engine->engine->is_of_this_process()) engine->engine->shut_down(milliseconds_of(seconds));
}
void muster_engine_free(muster_engine* engine) {
  if (engine == nullptr || !engine->engine->is_of_this_process()) return;
  delete engine;
}

muster_code muster_engine_submit(muster_engine* engine, const muster_submission* submission, muster_ticket** ticket,
                                 muster_error** error) {
  *ticket = nullptr;
  return guarded(error, [&] {
    if (!engine->engine->is_of_this_process()) return report(forked_status(), nullptr, error);
    const auto given = complete(submission);
    if (!given.ok()) return report(given.status(), nullptr, error);
    auto made = submission_of(*engine->engine, &*given);
    if (!made.ok()) return report(made.status(), nullptr, error);
    if (given->on_gpu != 0) {
      const Status marked = mark(*engine, given->stream, *made);
      if (!marked.ok()) return report(marked, nullptr, error);
    }
    auto submitted = engine->engine->submit(std::move(*made));
    if (!submitted.ok()) return report(submitted.status(), engine->engine->failure(), error);
    *ticket = new muster_ticket{std::move(*submitted)};
    return MUSTER_OK;
  });
}

muster_code muster_engine_timeline(muster_engine* engine, const char* path, int marks_turns, muster_error** error) {
  return guarded(error, [&] {
    if (!engine->engine->is_of_this_process()) return report(forked_status(), nullptr, error);
    return report(engine->engine->set_timeline(path == nullptr ? "" : path, marks_turns != 0), nullptr, error);
  });
}

muster_code muster_ticket_wait(muster_ticket* ticket, double seconds, muster_error** error) {
  return guarded(error, [&] {
    const auto done = ticket->ticket->wait_for(milliseconds_of(seconds));
    return done ? report(*done, ticket->ticket->failure(), error) : MUSTER_TIMEOUT;
  });
}
int muster_ticket_is_done(muster_ticket* ticket) {
  return ticket->ticket->is_done() ? 1 : 0;
}
muster_code muster_ticket_output(const muster_ticket* ticket, int index, muster_output* output) {
  const auto& outputs = ticket->ticket->outputs();
  if (index < 0 || static_cast<std::size_t>(index) >= outputs.size()) return MUSTER_INVALID;
  const Output& found = outputs[static_cast<std::size_t>(index)];
  *output = {found.place(), found.spec.shape.data(), static_cast<int>(found.spec.shape.size()),
             static_cast<muster_dtype>(found.spec.type)};
  return MUSTER_OK;
}
const int64_t* muster_ticket_received_splits(const muster_ticket* ticket) {
  return ticket->ticket->received_splits().data();
}
int muster_ticket_last_joined(const muster_ticket* ticket) {
  return ticket->ticket->last_joined();
}
void muster_ticket_free(muster_ticket* ticket) {
  delete ticket;
}
