// The whole of Server. Callbacks holds the functions that libpmix calls; each posts a task to the owner's thread.
// Read begin(), place() and register_world() first, then Callbacks, then answer() and the functions below it.

#include "agent/pmix/helper/server.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <numeric>
#include <optional>
#include <set>

#include "agent/pmix/helper/doorbell.h"
#include "agent/pmix/log_text.h"
#include "base/strings.h"
#include "model/role.h"

namespace muster::agent::pmix {
namespace {

constexpr std::chrono::seconds kDoorbellPatience{10};
// libpmix may have been built with a longer list of callbacks than this header's. The zeros after ours mean that
// there are no more.
constexpr std::size_t kModuleBytes = 2048;
constexpr std::size_t kKeptLookUps = 64;

// libpmix's callbacks have no argument that leads to our object.
Server* the_server = nullptr;

std::string joined(const std::vector<int>& numbers) {
  std::vector<std::string> words;
  for (const int number : numbers) words.push_back(std::to_string(number));
  return base::join(words, ",");
}

std::string text_of_key(const char* key) {
  return {key, ::strnlen(key, PMIX_MAX_KEYLEN)};
}

// True for an order to PMIx instead of a published name: how long a value stays, or which ranks may read it.
bool is_directive(std::string_view key) {
  return key.starts_with("pmix.");
}

std::vector<std::string> list_of(char** keys) {
  std::vector<std::string> list;
  for (; keys != nullptr && *keys != nullptr; ++keys) list.emplace_back(*keys);
  return list;
}

// Returns the text that helpers exchange for a published value: the rank's number, a letter for its type (s, b), its
// bytes. nullopt if the type is another one.
std::optional<std::string> to_bytes(const pmix_value_t& value, int rank) {
  if (value.type == PMIX_STRING && value.data.string != nullptr) return fmt::format("{} s{}", rank, value.data.string);
  if (value.type != PMIX_BYTE_OBJECT) return std::nullopt;
  return fmt::format("{} b{}", rank, std::string_view(value.data.bo.bytes, value.data.bo.size));
}

// Reads what to_bytes() wrote; false if it cannot. `to` points into `bytes`, so keep `bytes` as long as `to` is used.
bool from_bytes(std::string& bytes, pmix_pdata_t& to) {
  const std::size_t space = bytes.find(' ');
  if (space == std::string::npos || space + 1 >= bytes.size()) return false;
  char* const data = bytes.data() + space + 2;
  if (bytes[space + 1] == 's') {
    to.value.type = PMIX_STRING;
    to.value.data.string = data;
    return true;
  }
  to.value.type = PMIX_BYTE_OBJECT;
  to.value.data.bo = {data, bytes.size() - space - 2};
  return bytes[space + 1] == 'b';
}

pmix_status_t status_of(const NameAnswer& answer) {
  switch (static_cast<NameStatus>(answer.status)) {
    case NameStatus::kDone:
      return PMIX_SUCCESS;
    case NameStatus::kExists:
      return PMIX_ERR_DUPLICATE_KEY;
    case NameStatus::kMissing:
      return PMIX_ERR_NOT_FOUND;
    default:
      return PMIX_ERROR;
  }
}

SpawnProgram program_of(const pmix_app_t& app) {
  SpawnProgram program{.command = list_of(app.argv), .ranks = app.maxprocs, .environment = list_of(app.env)};
  if (app.cmd != nullptr && program.command.empty()) program.command.emplace_back(app.cmd);
  if (app.cmd != nullptr) program.command.front() = app.cmd;
  if (app.cwd != nullptr) program.workdir = app.cwd;
  return program;
}

// Reads what MPI_Info says about the spawned processes: names of hosts, and the directory.
void read_directives(const pmix_info_t* info, std::size_t count, SpawnProgram& program) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::string key = text_of_key(info[i].key);
    const pmix_value_t& value = info[i].value;
    if (value.type != PMIX_STRING || value.data.string == nullptr) continue;
    if (key == PMIX_WDIR) program.workdir = value.data.string;
    if (key != PMIX_HOST && key != PMIX_ADD_HOST) continue;
    for (const std::string_view host : base::split(value.data.string, ',')) program.hosts.emplace_back(host);
  }
}

int size_of(const Placement& placement) {
  int size = 0;
  for (const HostRanks& host : placement.hosts) size += static_cast<int>(host.ranks.size());
  return size;
}

// Makes a short name for a long list, from two 64-bit FNV-1a sums.
std::string digest(const std::string& text) {
  std::uint64_t sums[] = {14695981039346656037u, 1099511628211u * 7};
  for (const char c : text) {
    for (std::uint64_t& sum : sums) sum = (sum ^ static_cast<unsigned char>(c)) * 1099511628211u;
    sums[1] = (sums[1] << 5) | (sums[1] >> 59);
  }
  return fmt::format("{:016x}{:016x}", sums[0], sums[1]);
}

}  // namespace

struct Server::Callbacks {
  // Reports to the agent. A callback answers its rank only after this call, so the agent has the report before the
  // rank can end.
  template <typename RankEvent>
  static void report(const pmix_proc_t& proc, RankEvent event) {
    the_server->post_([proc, event]() mutable {
      const auto number = the_server->number_of(proc);
      if (!number) return;
      event.rank = *number;
      the_server->send_(event);
    });
  }

  static pmix_status_t connected(const pmix_proc_t* proc, void*, pmix_info_t*, std::size_t, pmix_op_cbfunc_t done,
                                 void* context) {
    report(*proc, RankConnected{});
    // Since 4.2, libpmix passes null for `done`.
    if (done == nullptr) return PMIX_OPERATION_SUCCEEDED;
    the_server->answer_later(done, context);
    return PMIX_SUCCESS;
  }

  static pmix_status_t finalized(const pmix_proc_t* proc, void*, pmix_op_cbfunc_t done, void* context) {
    report(*proc, RankFinalized{});
    the_server->answer_later(done, context);
    return PMIX_SUCCESS;
  }

  static pmix_status_t aborted(const pmix_proc_t* proc, void*, int status, const char*, pmix_proc_t*, std::size_t,
                               pmix_op_cbfunc_t done, void* context) {
    report(*proc, RankAborted{.rank = 0, .code = status});
    the_server->answer_later(done, context);
    return PMIX_SUCCESS;
  }

  static pmix_status_t fence(const pmix_proc_t* procs, std::size_t count, const pmix_info_t*, std::size_t, char* data,
                             std::size_t size, pmix_modex_cbfunc_t done, void* context) {
    auto ranks = the_server->numbers_of(procs, count);
    if (!ranks) return PMIX_ERR_NOT_SUPPORTED;
    // Leave `data` allocated. Versions of libpmix differ in which side frees it, and freeing twice is worse than a
    // leak.
    std::string blob = data == nullptr ? std::string() : std::string(data, size);
    the_server->post_([ranks = std::move(*ranks), blob = std::move(blob), waiting = Waiting{done, context}] {
      Server& self = *the_server;
      std::set<int> hosts;
      std::vector<int> own;
      for (const int rank : ranks) {
        hosts.insert(self.host_of_[rank]);
        if (self.host_of_[rank] == self.begin_.host) own.push_back(rank);
      }
      const std::uint64_t id = ++self.last_id_;
      self.waiting_[id] = waiting;
      self.send_(FenceEntered{id, digest(joined(ranks)), {hosts.begin(), hosts.end()}, blob, std::move(own)});
    });
    return PMIX_SUCCESS;
  }

  static pmix_status_t rank_data(const pmix_proc_t* proc, const pmix_info_t*, std::size_t, pmix_modex_cbfunc_t done,
                                 void* context) {
    const auto number = the_server->number_of(*proc);
    if (!number) return PMIX_ERR_NOT_SUPPORTED;
    the_server->post_([rank = *number, waiting = Waiting{done, context}] {
      const std::uint64_t id = ++the_server->last_id_;
      the_server->waiting_[id] = waiting;
      the_server->send_(RankDataWanted{id, rank});
    });
    return PMIX_SUCCESS;
  }

  static pmix_status_t spawn(const pmix_proc_t* proc, const pmix_info_t* info, std::size_t info_count,
                             const pmix_app_t* apps, std::size_t count, pmix_spawn_cbfunc_t done, void* context) {
    const auto number = the_server->number_of(*proc);
    if (!number) return PMIX_ERR_NOT_SUPPORTED;
    SpawnWanted asked{.rank = *number};
    for (std::size_t i = 0; i < count; ++i) {
      SpawnProgram program = program_of(apps[i]);
      read_directives(info, info_count, program);
      read_directives(apps[i].info, apps[i].ninfo, program);
      asked.programs.push_back(std::move(program));
    }
    the_server->post_([asked = std::move(asked), done, context]() mutable {
      Server& self = *the_server;
      asked.id = ++self.last_id_;
      self.spawns_waiting_[asked.id] = [done, context](const SpawnDone& answer) {
        pmix_nspace_t nspace{};
        answer.nspace.copy(nspace, sizeof nspace - 1);
        done(answer.nspace.empty() ? PMIX_ERR_PROC_FAILED_TO_START : PMIX_SUCCESS, nspace, context);
      };
      self.send_(asked);
    });
    return PMIX_SUCCESS;
  }

  static pmix_status_t publish(const pmix_proc_t* proc, const pmix_info_t* info, std::size_t count,
                               pmix_op_cbfunc_t done, void* context) {
    const auto number = the_server->number_of(*proc);
    if (!number) return PMIX_ERR_NOT_SUPPORTED;
    NamePublish asked{.rank = *number};
    for (std::size_t i = 0; i < count; ++i) {
      const std::string key = text_of_key(info[i].key);
      const pmix_value_t& value = info[i].value;
      if (key == PMIX_PERSISTENCE) asked.is_read_once = value.data.persist == PMIX_PERSIST_FIRST_READ;
      if (is_directive(key)) continue;
      std::optional<std::string> bytes = to_bytes(value, asked.rank);
      if (!bytes) return PMIX_ERR_NOT_SUPPORTED;
      asked.names.push_back(key);
      asked.values.push_back(std::move(*bytes));
    }
    ask(std::move(asked), done, context);
    return PMIX_SUCCESS;
  }

  static pmix_status_t look_up(const pmix_proc_t*, char** keys, const pmix_info_t* info, std::size_t count,
                               pmix_lookup_cbfunc_t done, void* context) {
    NameLookUp asked{.names = list_of(keys)};
    for (std::size_t i = 0; i < count; ++i) {
      const std::string key = text_of_key(info[i].key);
      const pmix_value_t& value = info[i].value;
      if (key == PMIX_WAIT) asked.waits = value.type != PMIX_BOOL || value.data.flag;
      if (key == PMIX_TIMEOUT && value.type == PMIX_INT) asked.seconds = std::max(value.data.integer, 0);
    }
    the_server->post_([asked = std::move(asked), done, context]() mutable {
      Server& self = *the_server;
      asked.id = ++self.last_id_;
      self.names_waiting_[asked.id] = [&self, done, context](const NameAnswer& answer) {
        self.answer_look_up(done, context, answer);
      };
      self.send_(asked);
    });
    return PMIX_SUCCESS;
  }

  static pmix_status_t unpublish(const pmix_proc_t* proc, char** keys, const pmix_info_t*, std::size_t,
                                 pmix_op_cbfunc_t done, void* context) {
    const auto number = the_server->number_of(*proc);
    if (!number) return PMIX_ERR_NOT_SUPPORTED;
    ask(NameUnpublish{.rank = *number, .names = list_of(keys)}, done, context);
    return PMIX_SUCCESS;
  }

  // Passes a rank's request to the agent, whose answer is only a status.
  template <typename Asked>
  static void ask(Asked asked, pmix_op_cbfunc_t done, void* context) {
    the_server->post_([asked = std::move(asked), done, context]() mutable {
      Server& self = *the_server;
      asked.id = ++self.last_id_;
      self.names_waiting_[asked.id] = [done, context](const NameAnswer& answer) {
        if (done != nullptr) done(status_of(answer), context);
      };
      self.send_(asked);
    });
  }

  static pmix_status_t connect(const pmix_proc_t*, std::size_t, const pmix_info_t*, std::size_t, pmix_op_cbfunc_t,
                               void*) {
    return PMIX_OPERATION_SUCCEEDED;
  }

  static pmix_status_t events(pmix_status_t*, std::size_t, const pmix_info_t*, std::size_t, pmix_op_cbfunc_t, void*) {
    return PMIX_OPERATION_SUCCEEDED;
  }

  static pmix_status_t no_events(pmix_status_t*, std::size_t, pmix_op_cbfunc_t, void*) {
    return PMIX_OPERATION_SUCCEEDED;
  }

  static pmix_status_t notify(pmix_status_t, const pmix_proc_t*, pmix_data_range_t, pmix_info_t*, std::size_t,
                              pmix_op_cbfunc_t, void*) {
    return PMIX_OPERATION_SUCCEEDED;
  }

  // Open MPI sends its help texts here and waits for the answer.
  static void log(const pmix_proc_t* client, const pmix_info_t* data, std::size_t count, const pmix_info_t*,
                  std::size_t, pmix_op_cbfunc_t done, void* context) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) {
      const pmix_value_t& value = data[i].value;
      const std::string_view key(data[i].key, ::strnlen(data[i].key, sizeof data[i].key));
      if (key == PMIX_LOG_MSG && value.type == PMIX_BYTE_OBJECT && value.data.bo.bytes != nullptr) {
        text += log_text({value.data.bo.bytes, value.data.bo.size});
      } else if ((key == PMIX_LOG_STDERR || key == PMIX_LOG_STDOUT || key == PMIX_LOG_MSG) &&
                 value.type == PMIX_STRING && value.data.string != nullptr) {
        text += printable_text(value.data.string);
      }
    }
    if (!text.empty()) report(*client, RankText{.rank = 0, .text = std::move(text)});
    if (done != nullptr) the_server->answer_later(done, context);
  }

  static void got_rank_data(pmix_status_t status, char* data, std::size_t size, void* context) {
    const std::unique_ptr<int> rank(static_cast<int*>(context));
    std::string blob = data == nullptr ? std::string() : std::string(data, size);
    the_server->post_([found = RankData{*rank, status == PMIX_SUCCESS, std::move(blob)}] { the_server->send_(found); });
  }
};

Server::Server(Library library, const BeginServer& begin, Post post, Send send)
    : library_(std::move(library)), begin_(begin), post_(std::move(post)), send_(std::move(send)) {}

Server::~Server() {
  the_server = nullptr;
}

base::Result<std::unique_ptr<Server>> Server::start(const BeginServer& begin, Post post, Send send) {
  MUSTER_ASSIGN_OR_RETURN(Library library, load_library());
  std::unique_ptr<Server> server(new Server(std::move(library), begin, std::move(post), std::move(send)));
  the_server = server.get();
  MUSTER_RETURN_IF_ERROR(
      server->begin().with_context(fmt::format("libpmix here ({}) cannot be used", server->version())));
  return server;
}

std::string Server::text_of(pmix_status_t status) const {
  const char* text = library_.error_string(status);
  return text == nullptr ? fmt::format("error {}", status) : text;
}

base::Status Server::begin() {
  static union {
    pmix_server_module_t module;
    char room[kModuleBytes];
  } callbacks{};
  callbacks.module.client_connected2 = Callbacks::connected;
  callbacks.module.client_finalized = Callbacks::finalized;
  callbacks.module.abort = Callbacks::aborted;
  callbacks.module.fence_nb = Callbacks::fence;
  callbacks.module.direct_modex = Callbacks::rank_data;
  callbacks.module.spawn = Callbacks::spawn;
  callbacks.module.publish = Callbacks::publish;
  callbacks.module.lookup = Callbacks::look_up;
  callbacks.module.unpublish = Callbacks::unpublish;
  callbacks.module.connect = Callbacks::connect;
  callbacks.module.disconnect = Callbacks::connect;
  callbacks.module.register_events = Callbacks::events;
  callbacks.module.deregister_events = Callbacks::no_events;
  callbacks.module.notify_event = Callbacks::notify;
  callbacks.module.log = Callbacks::log;
  Infos infos(library_);
  infos.text(PMIX_SERVER_NSPACE, begin_.nspace + "-server");
  infos.rank(PMIX_SERVER_RANK, begin_.host);
  infos.text(PMIX_SERVER_TMPDIR, begin_.directory);
  infos.text(PMIX_SYSTEM_TMPDIR, begin_.directory);
  infos.text(PMIX_HOSTNAME, begin_.host_name);
  infos.flag(PMIX_SERVER_TOOL_SUPPORT, false);
  infos.flag(PMIX_SERVER_SHARE_TOPOLOGY, true);
  const pmix_status_t began = library_.server_init(&callbacks.module, infos.data(), infos.size());
  if (began != PMIX_SUCCESS) return base::internal_error("it does not start: {}", text_of(began));
  MUSTER_ASSIGN_OR_RETURN(port_, find_port());
  return check_doorbell(port_, kDoorbellPatience);
}

// libpmix reveals its port only in the environment for a child of ours, so ask for that of a child that never starts.
base::Result<std::uint16_t> Server::find_port() const {
  pmix_proc_t nobody{};
  begin_.nspace.copy(nobody.nspace, sizeof nobody.nspace - 1);
  char** environment = nullptr;
  const pmix_status_t status = library_.setup_fork(&nobody, &environment);
  if (status != PMIX_SUCCESS) return base::internal_error("it has no port: {}", text_of(status));
  for (char** entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto begin = text.find("tcp4://127.");
    if (!text.starts_with("PMIX_SERVER_URI") || begin == std::string_view::npos) continue;
    const auto port = base::parse_decimal(text.substr(text.rfind(':') + 1), 65535);
    if (port) return static_cast<std::uint16_t>(*port);
  }
  return base::internal_error("it does not listen at 127.0.0.1: is the interface lo up?");
}

base::Status Server::wait_for(const char* what, const std::function<pmix_status_t(pmix_op_cbfunc_t, void*)>& start) {
  struct Done {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_done = false;
    pmix_status_t status = PMIX_SUCCESS;
  } done;
  const auto finish = [](pmix_status_t status, void* context) {
    auto& self = *static_cast<Done*>(context);
    const std::lock_guard lock(self.mutex);
    self.status = status;
    self.is_done = true;
    self.changed.notify_all();
  };
  const pmix_status_t started = start(finish, &done);
  if (started == PMIX_OPERATION_SUCCEEDED) return base::ok_status();
  if (started == PMIX_SUCCESS) {
    std::unique_lock lock(done.mutex);
    done.changed.wait(lock, [&done] { return done.is_done; });
    if (done.status == PMIX_SUCCESS || done.status == PMIX_OPERATION_SUCCEEDED) return base::ok_status();
  }
  const pmix_status_t failure = started == PMIX_SUCCESS ? done.status : started;
  return base::internal_error("libpmix here ({}) rejected {}: {}", version(), what, text_of(failure));
}

base::Status Server::place(const Placement& placement) {
  if (begin_.host < 0 || static_cast<std::size_t>(begin_.host) >= placement.hosts.size()) {
    return base::invalid_argument("the placement has no host {}", begin_.host);
  }
  MUSTER_RETURN_IF_ERROR(add(World{.nspace = begin_.nspace, .placement = placement, .spawner = {}, .others = {}}));
  is_placed_ = true;
  for (base::UniqueFd& rank : std::exchange(early_, {})) MUSTER_RETURN_IF_ERROR(serve(std::move(rank)));
  return base::ok_status();
}

base::Status Server::add(const AddWorld& world) {
  if (worlds_.empty() || world.placement.hosts.size() != worlds_.front().placement.hosts.size()) {
    return base::invalid_argument("the spawned ranks are not placed on the hosts of the job");
  }
  return add(World{.nspace = world.nspace,
                   .first = world.first,
                   .placement = world.placement,
                   .spawner = proc_of(world.spawner),
                   .others = {}});
}

// Store the world before libpmix registers it, because libpmix may mention it at once.
base::Status Server::add(World world) {
  world.others.resize(world.placement.hosts.size());
  for (std::size_t i = 0; i < world.placement.hosts.size(); ++i) {
    for (const World& before : worlds_) world.others[i] += before.placement.hosts[i].ranks.size();
    for (const int rank : world.placement.hosts[i].ranks) host_of_[world.first + rank] = static_cast<int>(i);
  }
  {
    const std::lock_guard lock(mutex_);
    worlds_.push_back(world);
  }
  MUSTER_RETURN_IF_ERROR(register_world(world));
  return register_ranks(world);
}

const std::vector<int>& Server::own_ranks(const World& world) const {
  return world.placement.hosts[static_cast<std::size_t>(begin_.host)].ranks;
}

std::optional<int> Server::number_of(const pmix_proc_t& proc) const {
  const auto numbers = PMIX_RANK_IS_VALID(proc.rank) ? numbers_of(&proc, 1) : std::nullopt;
  return numbers ? std::optional(numbers->front()) : std::nullopt;
}

std::optional<std::vector<int>> Server::numbers_of(const pmix_proc_t* procs, std::size_t count) const {
  const std::lock_guard lock(mutex_);
  std::set<int> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view nspace(procs[i].nspace, ::strnlen(procs[i].nspace, PMIX_MAX_NSLEN));
    const auto world = std::ranges::find(worlds_, nspace, &World::nspace);
    if (world == worlds_.end()) return std::nullopt;
    const int size = size_of(world->placement);
    const bool is_all = procs[i].rank == (PMIX_RANK_WILDCARD);
    if (!is_all && procs[i].rank >= static_cast<pmix_rank_t>(size)) return std::nullopt;
    const int from = is_all ? 0 : static_cast<int>(procs[i].rank);
    const int to = is_all ? size : from + 1;
    for (int rank = from; rank < to; ++rank) numbers.insert(numbers.end(), world->first + rank);
  }
  return std::vector<int>(numbers.begin(), numbers.end());
}

std::optional<pmix_proc_t> Server::proc_of(int number) const {
  const std::lock_guard lock(mutex_);
  for (const World& world : worlds_) {
    if (number < world.first || number >= world.first + size_of(world.placement)) continue;
    pmix_proc_t proc{};
    world.nspace.copy(proc.nspace, sizeof proc.nspace - 1);
    proc.rank = static_cast<pmix_rank_t>(number - world.first);
    return proc;
  }
  return std::nullopt;
}

base::Status Server::register_world(const World& world) {
  std::vector<std::string> names;
  std::vector<std::string> ranks;
  for (const HostRanks& host : world.placement.hosts) {
    if (host.ranks.empty()) continue;
    names.push_back(host.name);
    ranks.push_back(joined(host.ranks));
  }
  char* node_map = nullptr;
  char* rank_map = nullptr;
  if (library_.generate_regex(base::join(names, ",").c_str(), &node_map) != PMIX_SUCCESS ||
      library_.generate_ppn(base::join(ranks, ";").c_str(), &rank_map) != PMIX_SUCCESS) {
    return base::internal_error("libpmix here ({}) cannot store where the ranks are", version());
  }
  const std::vector<int>& own = own_ranks(world);
  const auto size = static_cast<std::size_t>(size_of(world.placement));
  Infos infos(library_);
  infos.regex(PMIX_NODE_MAP, node_map);
  infos.regex(PMIX_PROC_MAP, rank_map);
  for (char* map : {node_map, rank_map}) ::free(map);
  for (const char* key : {PMIX_JOB_SIZE, PMIX_MAX_PROCS}) infos.count(key, size);
  infos.count(PMIX_UNIV_SIZE, std::max(size, static_cast<std::size_t>(std::max(world.placement.universe, 0))));
  infos.count(PMIX_JOB_NUM_APPS, std::max<std::size_t>(world.placement.programs.size(), 1));
  infos.count(PMIX_NUM_NODES, names.size());
  infos.count(PMIX_LOCAL_SIZE, own.size());
  infos.text(PMIX_LOCAL_PEERS, joined(own));
  if (!own.empty()) infos.rank(PMIX_LOCALLDR, own.front());
  infos.text(PMIX_JOBID, world.nspace);
  if (world.spawner) {
    infos.flag(PMIX_SPAWNED, true);
    infos.process(PMIX_PARENT_ID, *world.spawner);
  }
  // Folders for files of the ranks' sessions. They are removed with the directory.
  infos.text(PMIX_TMPDIR, begin_.directory);
  infos.text(PMIX_NSDIR, begin_.directory + "/ranks");
  infos.flag(PMIX_TDIR_RMCLEAN, true);
  add_programs(world, infos, library_);
  add_ranks(world, infos);
  return wait_for("the job", [&](pmix_op_cbfunc_t done, void* context) {
    return library_.register_nspace(world.nspace.c_str(), static_cast<int>(own.size()), infos.data(), infos.size(),
                                    done, context);
  });
}

void Server::add_programs(const World& world, Infos& infos, const Library& library) {
  int first = 0;
  for (std::size_t i = 0; i < world.placement.programs.size(); ++i) {
    Infos one(library);
    one.count(PMIX_APPNUM, i);
    one.count(PMIX_APP_SIZE, static_cast<std::size_t>(world.placement.programs[i]));
    one.rank(PMIX_APPLDR, first);
    infos.array(PMIX_APP_INFO_ARRAY, one);
    first += world.placement.programs[i];
  }
}

void Server::add_ranks(const World& world, Infos& infos) const {
  const Placement& placement = world.placement;
  for (std::size_t i = 0; i < placement.hosts.size(); ++i) {
    const std::vector<int>& there = placement.hosts[i].ranks;
    for (std::size_t k = 0; k < there.size(); ++k) {
      const int program = model::program_of(placement.programs, there[k]);
      const auto before = placement.programs.begin() + program;
      Infos one(library_);
      one.rank(PMIX_RANK, there[k]);
      one.short_count(PMIX_LOCAL_RANK, k);
      one.short_count(PMIX_NODE_RANK, world.others[i] + k);
      one.count(PMIX_APPNUM, static_cast<std::size_t>(program));
      one.rank(PMIX_APP_RANK, there[k] - std::accumulate(placement.programs.begin(), before, 0));
      one.count(PMIX_NODEID, i);
      one.text(PMIX_HOSTNAME, placement.hosts[i].name);
      if (static_cast<int>(i) == begin_.host) {
        one.text(PMIX_PROCDIR, fmt::format("{}/ranks/{}", begin_.directory, world.first + there[k]));
      }
      infos.array(PMIX_PROC_DATA, one);
    }
  }
}

base::Status Server::register_ranks(const World& world) {
  for (const int rank : own_ranks(world)) {
    const auto proc = proc_of(world.first + rank);
    if (!proc) return base::invalid_argument("the placement has no rank {}", rank);
    MUSTER_RETURN_IF_ERROR(wait_for("a rank", [&](pmix_op_cbfunc_t done, void* context) {
      return library_.register_client(&*proc, ::getuid(), ::getgid(), nullptr, done, context);
    }));
  }
  return base::ok_status();
}

base::Status Server::serve(base::UniqueFd rank) {
  if (is_placed_) return hand_over(std::move(rank), port_);
  early_.push_back(std::move(rank));
  return base::ok_status();
}

// Never call `done` from within a callback: libpmix's thread would wait for itself.
void Server::answer_later(pmix_op_cbfunc_t done, void* context) {
  post_([done, context] { done(PMIX_SUCCESS, context); });
}

void Server::answer(std::uint64_t id, bool is_ok, const std::string& blob) {
  const auto found = waiting_.find(id);
  if (found == waiting_.end()) return;
  const Waiting waiting = found->second;
  waiting_.erase(found);
  if (!is_ok || blob.empty()) {
    waiting.done(is_ok ? PMIX_SUCCESS : PMIX_ERROR, nullptr, 0, waiting.context, nullptr, nullptr);
    return;
  }
  auto kept = std::make_unique<std::string>(blob);  // libpmix reads it later
  const std::string& bytes = *kept;
  waiting.done(
      PMIX_SUCCESS, bytes.data(), bytes.size(), waiting.context,
      [](void* context) { delete static_cast<std::string*>(context); }, kept.release());
}

void Server::fence_done(const FenceDone& done) {
  answer(done.id, done.is_ok, done.blob);
}

void Server::rank_data_found(const RankDataFound& found) {
  answer(found.id, found.is_ok, found.blob);
}

void Server::spawn_done(const SpawnDone& done) {
  const auto waiting = spawns_waiting_.extract(done.id);
  if (!waiting.empty()) waiting.mapped()(done);
}

void Server::name_answered(const NameAnswer& answer) {
  const auto waiting = names_waiting_.extract(answer.id);
  if (!waiting.empty()) waiting.mapped()(answer);
}

void Server::answer_look_up(pmix_lookup_cbfunc_t done, void* context, const NameAnswer& answer) {
  std::vector<std::string>& bytes = looked_up_bytes_.emplace_back(answer.values);
  std::vector<pmix_pdata_t>& found = looked_up_.emplace_back();
  for (std::size_t i = 0; i < std::min(answer.names.size(), bytes.size()); ++i) {
    pmix_pdata_t one{};
    answer.names[i].copy(one.key, sizeof one.key - 1);
    const auto number = base::parse_decimal(std::string_view(bytes[i]).substr(0, bytes[i].find(' ')), PMIX_RANK_VALID);
    const auto proc = number ? proc_of(static_cast<int>(*number)) : std::nullopt;
    if (!proc || !from_bytes(bytes[i], one)) continue;
    one.proc = *proc;
    found.push_back(one);
  }
  done(status_of(answer), found.data(), found.size(), context);
  if (looked_up_.size() <= kKeptLookUps) return;
  looked_up_.pop_front();
  looked_up_bytes_.pop_front();
}

void Server::want_rank_data(const WantRankData& wanted) {
  const auto proc = proc_of(wanted.rank);
  if (!proc) return send_(RankData{wanted.rank, false, ""});
  auto context = std::make_unique<int>(wanted.rank);
  const pmix_status_t asked = library_.dmodex_request(&*proc, Callbacks::got_rank_data, context.get());
  if (asked == PMIX_SUCCESS) {
    (void)context.release();  // now owned by got_rank_data()
  } else {
    send_(RankData{wanted.rank, false, ""});
  }
}

}  // namespace muster::agent::pmix
