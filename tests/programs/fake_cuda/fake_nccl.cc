// libnccl.so.2 for tests: README.md. Ranks are threads of one process. An operation waits in its stream until all ranks
// have come to it, or the communicator is aborted, as NCCL's kernels do. Who breaks NCCL's rules for communicators that
// do not block gets the error that it would get there, or one where NCCL would hang.
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include "collectives/device/nccl_api.h"
#include "tests/programs/fake_cuda/failing.h"
#include "tests/unit/collectives/device/host_kernels.h"

extern "C" void fake_cuda_push(void* stream, void (*work)(void*), void* argument);
extern "C" int fake_cuda_current();
extern "C" void fake_cuda_wait_for_held();

namespace {

using muster::collectives::device::NcclComm;
using muster::collectives::device::NcclConfig;
using muster::collectives::device::NcclResult;
using muster::collectives::device::NcclUniqueId;

constexpr NcclResult kSystemError = 2;
constexpr NcclResult kInvalidArgument = 4;
constexpr NcclResult kInvalidUsage = 5;
constexpr NcclResult kRemoteError = 6;
using muster::collectives::device::kNcclInProgress;
using muster::collectives::device::kNcclNoColor;

bool fails(const std::string& what, int rank = -1) {
  return fake_cuda::is_to_fail("FAKE_NCCL_FAIL", what, rank);
}

// As NCCL does it: to stdout, whose buffer is the program's business, or to a file with line buffering.
void say(const char* line) {
  if (std::getenv("NCCL_DEBUG") == nullptr) return;
  const char* const named = std::getenv("NCCL_DEBUG_FILE");
  std::FILE* const file = named == nullptr ? stdout : std::fopen(named, "we");
  if (file == nullptr) return;
  std::fprintf(file, "fake:%d:%d [0] NCCL INFO %s\n", getpid(), gettid(), line);
  if (file != stdout) (void)std::fclose(file);
}

// What all ranks put into one operation; the last that comes does it.
struct Meeting {
  std::vector<const void*> in;
  std::vector<void*> out;
  int came = 0;
  bool is_done = false;
};
// What a rank has sent to another one, until that one has taken it.
struct Parcel {
  const void* data;
  std::size_t bytes;
  bool is_taken = false;
};
struct Group;
// What all ranks of a group put into one ncclCommSplit().
struct Splitting {
  struct Wanted {
    int color;
    int key;
  };
  std::map<int, Wanted> wanted;  // by rank
  std::map<int, std::shared_ptr<Group>> by_color;
};
struct Group {
  explicit Group(int count) : ranks(count) {}
  const int ranks;
  std::map<int, int> devices;  // that were current when its ranks came, and whose they are
  std::map<std::uint64_t, Splitting> splittings;
  std::mutex mutex;
  std::condition_variable news;
  std::map<std::uint64_t, Meeting> meetings;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Parcel>>> mail;  // by sender and receiver
};
struct Rank {
  std::shared_ptr<Group> group;
  int rank = 0;
  std::uint64_t operations = 0;
  std::atomic<int> turns{3};  // get_async_error says "in progress" so often
  std::atomic<bool> is_aborted{false};
  std::atomic<int> running{0};      // operations that are not done
  std::atomic<bool> is_cut{false};  // they will never be
  std::uint64_t splits = 0;
  std::set<std::string> connected;  // kinds of operations that this rank has been through
  NcclComm* part = nullptr;         // where ncclCommSplit() puts the part when all ranks have come
};
std::atomic<int> operations_so_far{0};

// Nothing may be at no place.
void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memmove(to, from, bytes);
}

std::size_t size_of(int type) {
  constexpr std::size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return kSizes[type];
}
std::string name_of(int type) {
  constexpr const char* kNames[] = {"int8", "uint8",   "int32",   "",        "int64",
                                    "",     "float16", "float32", "float64", "bfloat16"};
  return std::string("muster_reduce_") + kNames[type];
}

void reduce(const Meeting& meeting, std::size_t from, std::size_t count, int type, int op,
            const std::vector<void*>& outputs) {
  using namespace muster::collectives::device;
  constexpr std::uint32_t kOps[] = {0, 4, 3, 2, 0};  // sum, prod, max, min, avg: as in RedOp
  const auto ranks = static_cast<std::uint32_t>(meeting.in.size());
  Reduction call{};
  call.count = count;
  call.before = call.after = 1;
  call.divisor = op == 4 ? ranks : 1;
  call.op = kOps[op];
  call.inputs = ranks;
  for (std::size_t i = 0; i < meeting.in.size(); ++i) {
    call.in[i] = reinterpret_cast<std::uint64_t>(meeting.in[i]) + from * size_of(type);
  }
  call.outputs = static_cast<std::uint32_t>(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) call.out[i] = reinterpret_cast<std::uint64_t>(outputs[i]);
  const auto blocks = static_cast<std::uint32_t>((count + kUnitElements - 1) / kUnitElements);
  (void)run_on_host(name_of(type), blocks, &call);
}

struct Work {
  std::shared_ptr<Rank> rank;
  std::uint64_t number;
  const void* in;
  void* out;
  std::function<void(const Meeting&)> act;
};
void run(void* argument) {
  const std::unique_ptr<Work> work(static_cast<Work*>(argument));
  Group& group = *work->rank->group;
  std::unique_lock lock(group.mutex);
  Meeting& meeting = group.meetings[work->number];
  if (work->rank->is_cut) {
    group.news.wait(lock, [&] { return work->rank->is_aborted.load(); });
    return;
  }
  meeting.in.resize(static_cast<std::size_t>(group.ranks));
  meeting.out.resize(meeting.in.size());
  meeting.in[static_cast<std::size_t>(work->rank->rank)] = work->in;
  meeting.out[static_cast<std::size_t>(work->rank->rank)] = work->out;
  if (++meeting.came == group.ranks) {
    work->act(meeting);
    meeting.is_done = true;
    group.news.notify_all();
  }
  group.news.wait(lock, [&] { return meeting.is_done || work->rank->is_aborted.load(); });
  --work->rank->running;
}

// Sends and receives between ncclGroupStart() and ncclGroupEnd(), all under way at once.
struct Message {
  const void* from;  // null: a receive
  void* to;
  std::size_t bytes;
  int peer;
};
struct Exchange {
  std::shared_ptr<Rank> rank;
  void* stream = nullptr;
  std::vector<Message> messages;
};
thread_local std::unique_ptr<Exchange> open_exchange;

void exchange(const std::unique_ptr<Exchange>& work) {
  Rank& own = *work->rank;
  Group& group = *own.group;
  std::unique_lock lock(group.mutex);
  const auto wait_for = [&](const auto& condition) {
    group.news.wait(lock, [&] { return condition() || own.is_aborted.load(); });
  };
  std::vector<std::shared_ptr<Parcel>> sent;
  for (const Message& message : work->messages) {
    if (message.from == nullptr) continue;
    sent.push_back(std::make_shared<Parcel>(Parcel{message.from, message.bytes}));
    group.mail[{own.rank, message.peer}].push_back(sent.back());
  }
  group.news.notify_all();
  for (const Message& message : work->messages) {
    if (message.from != nullptr) continue;
    auto& box = group.mail[{message.peer, own.rank}];
    wait_for([&] { return !box.empty(); });
    if (own.is_aborted) return;
    if (box.front()->bytes != message.bytes) std::abort();  // NCCL would hang, or write beyond
    copy(message.to, box.front()->data, message.bytes);
    box.front()->is_taken = true;
    box.pop_front();
    group.news.notify_all();
  }
  for (const auto& parcel : sent) wait_for([&] { return parcel->is_taken; });
}
void run_exchange(void* argument) {
  const std::unique_ptr<Exchange> work(static_cast<Exchange*>(argument));
  exchange(work);
  --work->rank->running;
}

// Ranks that are aborted leave what they wait for in.
std::map<NcclComm, std::shared_ptr<Rank>>& ranks() {
  static auto* const kAll = new std::map<NcclComm, std::shared_ptr<Rank>>;
  return *kAll;
}
std::mutex& ranks_mutex() {
  static auto* const kMutex = new std::mutex;
  return *kMutex;
}
std::shared_ptr<Rank> find(NcclComm comm) {
  const std::lock_guard lock(ranks_mutex());
  const auto found = ranks().find(comm);
  return found == ranks().end() ? nullptr : found->second;
}

// Whether its last call was seen to be done: NCCL takes no other before.
bool is_ready(const Rank& rank) {
  return rank.turns <= 0 && rank.part == nullptr;
}

NcclComm add_rank(std::shared_ptr<Group> group, int number) {
  auto made = std::make_shared<Rank>();
  made->group = std::move(group);
  made->rank = number;
  NcclComm const comm = made.get();
  const std::lock_guard lock(ranks_mutex());
  ranks()[comm] = std::move(made);
  return comm;
}

// As NCCL connects ranks when an operation needs it first.
void connect(Rank& rank, const char* what) {
  if (rank.connected.insert(what).second) fake_cuda_wait_for_held();
}

NcclResult push(const char* what, NcclComm comm, void* stream, const void* in, void* out,
                std::function<void(const Meeting&)> act) {
  const std::shared_ptr<Rank> rank = find(comm);
  if (rank == nullptr || !is_ready(*rank)) return kInvalidArgument;
  if (fails(what, rank->rank)) return kSystemError;
  connect(*rank, what);
  rank->turns = 2;
  if (fails("network") || fails("silence")) rank->is_cut = true;
  ++rank->running;
  ++operations_so_far;
  fake_cuda_push(stream, run, new Work{rank, ++rank->operations, in, out, std::move(act)});
  return kNcclInProgress;
}

// The part of one rank, when all have said what they want. True: it is there, or this rank gets none.
bool take_part(Rank& rank) {
  Group& group = *rank.group;
  NcclComm made = nullptr;
  {
    const std::lock_guard lock(group.mutex);
    Splitting& all = group.splittings[rank.splits];
    if (static_cast<int>(all.wanted.size()) != group.ranks) return false;
    const Splitting::Wanted own = all.wanted[rank.rank];
    if (own.color != kNcclNoColor) {
      int size = 0;
      int number = 0;
      for (const auto& [other, wanted] : all.wanted) {
        if (wanted.color != own.color) continue;
        ++size;
        number += wanted.key < own.key || (wanted.key == own.key && other < rank.rank) ? 1 : 0;
      }
      auto& part = all.by_color[own.color];
      if (part == nullptr) part = std::make_shared<Group>(size);
      made = add_rank(part, number);
    }
  }
  if (made != nullptr) find(made)->turns = 0;
  *std::exchange(rank.part, nullptr) = made;
  return true;
}

NcclResult add_message(NcclComm comm, void* stream, const Message& message) {
  const std::shared_ptr<Rank> rank = find(comm);
  if (rank == nullptr || open_exchange == nullptr || message.peer < 0 || message.peer >= rank->group->ranks ||
      !is_ready(*rank)) {
    return kInvalidArgument;
  }
  open_exchange->rank = rank;
  open_exchange->stream = stream;
  open_exchange->messages.push_back(message);
  return 0;
}

}  // namespace

extern "C" {
// NOLINTBEGIN(readability-identifier-naming): NCCL's names

NcclResult ncclGetVersion(int* version) {
  const char* const set = std::getenv("FAKE_NCCL_VERSION");
  *version = set == nullptr ? 22809 : std::atoi(set);
  return 0;
}
const char* ncclGetErrorString(NcclResult) {
  return "made to fail by a test";
}
const char* ncclGetLastError(NcclComm) {
  return std::getenv("FAKE_NCCL_FAIL") == nullptr ? "" : "no socket interface found";
}
NcclResult ncclGetUniqueId(NcclUniqueId* id) {
  if (fails("ncclGetUniqueId")) return kSystemError;
  static std::atomic<int> last{0};
  std::memset(id, 0, sizeof *id);
  const int number = ++last;
  std::memcpy(id->internal, &number, sizeof number);
  return 0;
}
NcclResult ncclCommInitRankConfig(NcclComm* comm, int size, NcclUniqueId id, int rank, NcclConfig* config) {
  if (config->magic != 0xcafebeef || config->blocking != 0) return kInvalidArgument;
  if (fails("ncclCommInitRankConfig")) return kSystemError;
  say("ncclCommInitRankConfig");
  static std::map<int, std::weak_ptr<Group>> groups;
  int number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  std::shared_ptr<Group> group;
  {
    const std::lock_guard lock(ranks_mutex());
    group = groups[number].lock();
    if (group == nullptr) groups[number] = group = std::make_shared<Group>(size);
  }
  {
    const std::lock_guard lock(group->mutex);
    if (!group->devices.emplace(fake_cuda_current(), rank).second) return kInvalidUsage;  // two ranks on one GPU
  }
  *comm = add_rank(std::move(group), rank);
  return kNcclInProgress;
}
NcclResult ncclCommSplit(NcclComm comm, int color, int key, NcclComm* made, NcclConfig* config) {
  const std::shared_ptr<Rank> rank = find(comm);
  if (rank == nullptr || !is_ready(*rank) || color < kNcclNoColor || config->blocking != 0) return kInvalidArgument;
  if (rank->running != 0) return kInvalidUsage;
  if (fails("ncclCommSplit", rank->rank)) return kSystemError;
  say("ncclCommSplit");
  *made = nullptr;
  rank->part = made;
  rank->turns = 3;
  ++rank->splits;
  const std::lock_guard lock(rank->group->mutex);
  rank->group->splittings[rank->splits].wanted[rank->rank] = {color, key};
  return kNcclInProgress;
}
NcclResult ncclCommGetAsyncError(NcclComm comm, NcclResult* error) {
  const std::shared_ptr<Rank> rank = find(comm);
  if (rank == nullptr) return kInvalidArgument;
  const bool is_busy = fails("stall") || rank->turns > 0 || (rank->part != nullptr && !take_part(*rank));
  *error = is_busy ? kNcclInProgress : 0;
  // Enqueued is well; what the network then does to it is seen by the next look.
  const bool is_told = rank->is_cut && fails("network");
  if (is_told && --rank->turns < -1) *error = kRemoteError;
  if (!is_told && rank->turns > 0) --rank->turns;
  return 0;
}
NcclResult ncclCommAbort(NcclComm comm) {
  const std::shared_ptr<Rank> rank = find(comm);
  if (rank == nullptr) return kInvalidArgument;
  say("ncclCommAbort");
  {
    const std::lock_guard lock(rank->group->mutex);
    rank->is_aborted = true;
  }
  rank->group->news.notify_all();
  const std::lock_guard lock(ranks_mutex());
  ranks().erase(comm);
  return 0;
}
NcclResult ncclAllReduce(const void* in, void* out, std::size_t count, int type, int op, NcclComm comm, void* stream) {
  return push("ncclAllReduce", comm, stream, in, out,
              [=](const Meeting& all) { reduce(all, 0, count, type, op, all.out); });
}
NcclResult ncclReduceScatter(const void* in, void* out, std::size_t count, int type, int op, NcclComm comm,
                             void* stream) {
  return push("ncclReduceScatter", comm, stream, in, out, [=](const Meeting& all) {
    for (std::size_t rank = 0; rank < all.out.size(); ++rank) {
      reduce(all, rank * count, count, type, op, {all.out[rank]});
    }
  });
}
NcclResult ncclBroadcast(const void* in, void* out, std::size_t count, int type, int root, NcclComm comm,
                         void* stream) {
  return push("ncclBroadcast", comm, stream, in, out, [=](const Meeting& all) {
    for (void* const to : all.out) copy(to, all.in[static_cast<std::size_t>(root)], count * size_of(type));
  });
}
NcclResult ncclAllGather(const void* in, void* out, std::size_t count, int type, NcclComm comm, void* stream) {
  return push("ncclAllGather", comm, stream, in, out, [=](const Meeting& all) {
    for (void* const to : all.out) {
      for (std::size_t rank = 0; rank < all.in.size(); ++rank) {
        copy(static_cast<char*>(to) + rank * count * size_of(type), all.in[rank], count * size_of(type));
      }
    }
  });
}
NcclResult ncclGroupStart() {
  open_exchange = std::make_unique<Exchange>();
  return 0;
}
NcclResult ncclSend(const void* data, std::size_t count, int type, int peer, NcclComm comm, void* stream) {
  return add_message(comm, stream, {data, nullptr, count * size_of(type), peer});
}
NcclResult ncclRecv(void* data, std::size_t count, int type, int peer, NcclComm comm, void* stream) {
  return add_message(comm, stream, {nullptr, data, count * size_of(type), peer});
}
NcclResult ncclGroupEnd() {
  std::unique_ptr<Exchange> made = std::move(open_exchange);
  if (made == nullptr || made->messages.empty()) return 0;
  connect(*made->rank, "ncclGroupEnd");
  made->rank->turns = 2;
  ++made->rank->running;
  ++operations_so_far;
  void* const stream = made->stream;
  fake_cuda_push(stream, run_exchange, made.release());
  return kNcclInProgress;
}

// For tests: how many communicators there are, and how many operations there were.
int fake_nccl_communicators() {
  const std::lock_guard lock(ranks_mutex());
  return static_cast<int>(ranks().size());
}
int fake_nccl_operations() {
  return operations_so_far;
}

// NOLINTEND(readability-identifier-naming)
}  // extern "C"
