// All of Daemon: its parts in the order of their construction.
// Read it in this order: Parts, open at the end of the file, then the functions of Parts that it calls.
#include "launcherd/daemon/daemon.h"

#include <unistd.h>

#include <chrono>

#include "base/file.h"
#include "base/gate.h"
#include "base/host_name.h"
#include "base/strings.h"
#include "launcherd/daemon/daemon_api.h"
#include "launcherd/daemon/dialled_hosts.h"
#include "launcherd/daemon/heap_trimmer.h"
#include "launcherd/daemon/job_manager.h"
#include "launcherd/daemon/load_history.h"
#include "launcherd/daemon/log_streams.h"
#include "launcherd/daemon/retention.h"
#include "launcherd/daemon/watch_streams.h"
#include "launcherd/enrol/dial_in.h"
#include "launcherd/output/log_reader.h"
#include "launcherd/start/make_bootstrap.h"
#include "launcherd/store/job_store.h"
#include "launcherd/store/state_directory.h"
#include "launcherd/trace/job_trace.h"
#include "launcherd/trace/trace_exporter.h"
#include "launcherd/web/web_server.h"
#include "launcherd/web/write_token.h"

namespace muster::launcherd::inline daemon {
namespace {

constexpr std::chrono::hours kRenewal{24};

v1::Capabilities capabilities_of(const DaemonOptions& options, base::WallTime now) {
  v1::Capabilities capabilities;
  capabilities.set_version(options.version);
  capabilities.set_build_id(options.build_id);
  for (const char* const feature : {"submit", "watch",   "logs",     "kill",     "signal",   "stacks",    "cleanup",
                                    "hosts",  "drain",   "priority", "backfill", "deadline", "retention", "placement",
                                    "resize", "history", "after",    "update",   "arrays",   "notify",    "exec"}) {
    capabilities.add_features(feature);
  }
  if (options.fair_use.is_on) capabilities.add_features("fair-use");
  if (options.http_write) capabilities.add_features("http-write");
  capabilities.set_host(base::own_host_name());
  capabilities.set_pid(::getpid());
  capabilities.mutable_started()->set_seconds(std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count());
  capabilities.set_state_directory(options.state_directory);
  return capabilities;
}

base::Result<ApiListeners> open_listeners(DaemonOptions& options) {
  ApiListeners listeners;
  if (options.inherited_socket.valid()) {
    MUSTER_ASSIGN_OR_RETURN(ApiSocket socket, ApiSocket::adopt(std::move(options.inherited_socket)));
    listeners.sockets.push_back(std::move(socket));
  } else if (options.has_socket) {
    MUSTER_ASSIGN_OR_RETURN(ApiSocket socket, options.socket.empty()
                                                  ? ApiSocket::open_for_daemon(options.socket_directories)
                                                  : ApiSocket::open_at(options.socket));
    listeners.sockets.push_back(std::move(socket));
  }
  listeners.tls = options.tls;
  listeners.on_line = options.on_line;
  return listeners;
}

}  // namespace

// Each part depends on those before it, so the last one is destroyed first.
struct Daemon::Parts {
  Parts(base::Loop& loop_in, StateDirectory directory_in) : loop(loop_in), directory(std::move(directory_in)) {}

  base::Loop& loop;
  // First member, because threads of the parts below use it until they end.
  const base::Gate gate;
  StateDirectory directory;
  std::vector<std::string> addresses;
  std::unique_ptr<JobStore> store;
  std::unique_ptr<LogReader> logs;
  std::unique_ptr<Retention> retention;
  std::unique_ptr<WatchStreams> watches;
  std::unique_ptr<LogStreams> log_streams;
  std::shared_ptr<DialIn> dial_in;  // nullptr if agents cannot connect by themselves
  std::unique_ptr<Bootstrap> bootstrap;
  LoadHistory history;
  std::unique_ptr<TraceExporter> exporter;  // nullptr if no traces are sent
  std::unique_ptr<JobTraces> traces;
  std::unique_ptr<HostPool> pool;
  std::unique_ptr<DialledHosts> dialled;
  std::unique_ptr<JobManager> jobs;
  std::unique_ptr<DaemonApi> api;
  std::unique_ptr<ApiServer> server;
  std::unique_ptr<WebServer> web;
  std::unique_ptr<MetricsServer> metrics;
  std::string token_note;  // says where the tokens of the page and of --metrics are; empty without them
  base::Timer renewal;     // renews the join file
  base::Timer history_timer;
  HeapTrimmer trimmer;
  base::Timer trim_timer;

  void open_traces(const DaemonOptions& options);
  base::Status open_dial_in(const base::Clock& clock, const DaemonOptions& options);
  base::Status load_dialled(const DaemonOptions& options);
  base::Status open_pool(const base::Clock& clock, const DaemonOptions& options);
  // Posts a task to the loop; any thread may call it. The task does nothing once this object is destroyed.
  template <typename Task>
  void post(Task task) {
    loop.post(gate.wrap(std::move(task)));
  }
  base::Status open_store(const base::Clock& clock, const DaemonOptions& options);
  base::Status serve(const base::Clock& clock, const DaemonOptions& options, ApiListeners listeners);
};

// launcherd serves without traces if they cannot be sent.
void Daemon::Parts::open_traces(const DaemonOptions& options) {
  if (!options.otlp) return;
  auto started = TraceExporter::start(*options.otlp, {.host = base::own_host_name(), .version = options.version},
                                      [log = options.on_line](const std::string& line) { log(line); });
  if (!started.ok()) return options.on_line(fmt::format("no traces are sent: {}", started.status().message()));
  exporter = *std::move(started);
  traces = std::make_unique<JobTraces>(exporter.get());
}

base::Status Daemon::Parts::open_dial_in(const base::Clock& clock, const DaemonOptions& options) {
  if (!options.accept_agents) return base::ok_status();
  DialInOptions accept;
  accept.at = *options.accept_agents;
  if (accept.at.join_file.empty()) accept.at.join_file = directory.path() + "/join";
  accept.build_id = options.build_id;
  accept.on_note = [log = options.on_line, is_on = options.verbose](const std::string& line) {
    if (is_on) log(line);
  };
  accept.on_refused = options.on_line;
  accept.on_join = [this](const std::string& host, int slots) {
    post([this, host, slots] {
      if (dialled != nullptr) dialled->join(host, slots);
    });
  };
  accept.on_gone = [this](const std::string& host) {
    post([this, host] {
      if (dialled != nullptr) dialled->recheck_later(host);
    });
  };
  MUSTER_ASSIGN_OR_RETURN(dial_in, DialIn::open(clock, std::move(accept)));
  renewal = loop.every(kRenewal, [this, log = options.on_line] {
    if (const base::Status renewed = dial_in->renew(); !renewed.ok()) log(renewed.message());
  });
  return base::ok_status();
}

// Call it after open_pool(), because it asks the pool which agents still run.
base::Status Daemon::Parts::load_dialled(const DaemonOptions& options) {
  if (dial_in == nullptr) return base::ok_status();
  DialledHosts::Options wanted;
  wanted.file = directory.path() + "/dialled";
  wanted.is_here = [this](const std::string& host) {
    const v1::AgentState state = pool->state({.name = host});
    const bool is_up =
        state == v1::AGENT_STATE_STARTING || state == v1::AGENT_STATE_UP || state == v1::AGENT_STATE_SUSPECT;
    return is_up || dial_in->agents().is_waiting(host);
  };
  wanted.on_hosts = [this](const std::vector<model::HostSpec>& hosts) { jobs->replace_hosts(hosts); };
  wanted.on_left = [this](const std::string& host) { dial_in->agents().forget(host); };
  wanted.on_line = options.on_line;
  MUSTER_ASSIGN_OR_RETURN(dialled, DialledHosts::load(loop, options.hosts, std::move(wanted)));
  for (const std::string& host : dialled->names()) dial_in->agents().add_known(host);
  return base::ok_status();
}

base::Status Daemon::Parts::open_pool(const base::Clock& clock, const DaemonOptions& options) {
  MUSTER_RETURN_IF_ERROR(open_dial_in(clock, options));
  BootstrapOptions with_dial_in = options.bootstrap;
  with_dial_in.dial_in = dial_in;
  MUSTER_ASSIGN_OR_RETURN(bootstrap, make_bootstrap(std::move(with_dial_in)));
  HostPoolOptions pool_options;
  pool_options.state_file = directory.path() + "/agents";
  pool_options.session_root = options.session_root;
  pool_options.idle_timeout = options.idle_timeout;
  pool_options.lease = options.agent_lease;
  pool_options.verbose = options.verbose;
  pool_options.fanout = options.fanout;
  pool_options.on_line = options.on_line;
  pool_options.on_note = [log = options.on_line, is_on = options.verbose](const std::string& line) {
    if (is_on) log(line);
  };
  pool_options.on_change = [this](const BootstrapTarget& host) {
    if (jobs != nullptr) jobs->agent_changed(host.name);
    if (dialled != nullptr) dialled->recheck_later(host.name);
  };
  pool_options.on_load = [this](const BootstrapTarget& host, const v1::HostLoad& load) {
    history.add_report(host.name, load);
  };
  pool_options.when_stored = [this](base::Loop::Task task) {
    // Batches are committed in order, so an empty batch is stored after everything that was recorded before it.
    store->record({}, [task = std::move(task)](const base::Status& status) {
      if (status.ok()) task();
    });
  };
  MUSTER_ASSIGN_OR_RETURN(pool, HostPool::start(loop, clock, std::move(pool_options), bootstrap.get()));
  return base::ok_status();
}

base::Status Daemon::Parts::open_store(const base::Clock& clock, const DaemonOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(store, JobStore::open(directory.database(), loop));
  MUSTER_ASSIGN_OR_RETURN(logs, LogReader::start(loop));
  const std::string jobs_directory = directory.path() + "/jobs";
  MUSTER_RETURN_IF_ERROR(base::make_private_directory(jobs_directory));
  retention = std::make_unique<Retention>(loop, clock, store.get(), jobs_directory, options.on_line);
  watches = std::make_unique<WatchStreams>(store.get());
  log_streams = std::make_unique<LogStreams>(logs.get());
  MUSTER_RETURN_IF_ERROR(open_pool(clock, options));
  MUSTER_RETURN_IF_ERROR(load_dialled(options));
  open_traces(options);
  JobSurroundings surroundings;
  surroundings.traces = traces.get();
  surroundings.loop = &loop;
  surroundings.clock = &clock;
  surroundings.logs = logs.get();
  surroundings.pool = pool.get();
  surroundings.state_directory = directory.path();
  surroundings.jobs_directory = jobs_directory;
  surroundings.fair_use = options.fair_use;
  surroundings.more_hosts_may_join = dial_in != nullptr;
  surroundings.on_line = options.on_line;
  jobs = std::make_unique<JobManager>(std::move(surroundings), store.get(),
                                      HostTable(dialled != nullptr ? dialled->hosts() : options.hosts));
  jobs->on_change = [this](const base::JobId& id) { watches->changed(id); };
  jobs->on_ended = [this, report = options.on_job_ended](const base::JobId& id, base::WallTime forget_at) {
    retention->add(id, forget_at);
    if (report) report(id.str());
  };
  MUSTER_ASSIGN_OR_RETURN(StoreReader reader, StoreReader::open(directory.database()));
  MUSTER_RETURN_IF_ERROR(jobs->load_blocking(reader));
  pool->forget_other_jobs();
  retention->load();
  return base::ok_status();
}

base::Status Daemon::Parts::serve(const base::Clock& clock, const DaemonOptions& options, ApiListeners listeners) {
  if (!listeners.sockets.empty()) addresses.push_back("unix:" + listeners.sockets.front().path());
  BootstrapOptions with_dial_in = options.bootstrap;
  with_dial_in.dial_in = dial_in;
  api = std::make_unique<DaemonApi>(DaemonApi::Parts{.loop = &loop,
                                                     .store = store.get(),
                                                     .jobs = jobs.get(),
                                                     .watches = watches.get(),
                                                     .logs = log_streams.get(),
                                                     .history = &history,
                                                     .clock = &clock,
                                                     .bootstrap = with_dial_in,
                                                     .session_root = options.session_root,
                                                     .capabilities = capabilities_of(options, clock.wall())});
  history_timer = loop.every(LoadHistory::kPeriod, [this, &clock] {
    history.close_period(clock.wall(), jobs->load_sample(), jobs->host_names());
  });
  trim_timer = loop.every(HeapTrimmer::kPeriod, [this] { trimmer.trim_if_due(); });
  MUSTER_ASSIGN_OR_RETURN(server, ApiServer::start(loop, std::move(listeners), api.get()));
  for (std::size_t i = 0; i < options.tls.size(); ++i) {
    const std::string& address = options.tls[i].address;
    addresses.push_back(fmt::format("{}:{}", address.substr(0, address.rfind(':')), server->tls_ports()[i]));
  }
  if (!options.http.empty()) {
    std::string token;
    if (options.http_write) {
      token_note = fmt::format("; actions of the page need the token in {}/http-token", directory.path());
      MUSTER_ASSIGN_OR_RETURN(token, load_or_make_write_token(directory.path() + "/http-token"));
    }
    MUSTER_ASSIGN_OR_RETURN(web, WebServer::start(loop, options.http, api.get(), std::move(token)));
    addresses.push_back(web->url());
  }
  if (!options.metrics.address.empty()) {
    MUSTER_ASSIGN_OR_RETURN(std::string token, load_or_make_write_token(directory.path() + "/metrics-token"));
    MUSTER_ASSIGN_OR_RETURN(metrics, MetricsServer::start(loop, options.metrics, api.get(), std::move(token)));
    addresses.push_back(metrics->url());
    token_note += fmt::format("; metrics need the token in {}/metrics-token", directory.path());
  }
  return base::ok_status();
}

base::Result<std::unique_ptr<Daemon>> Daemon::open(base::Loop& loop, const base::Clock& clock, DaemonOptions options) {
  MUSTER_ASSIGN_OR_RETURN(StateDirectory directory, StateDirectory::open(options.state_directory));
  // Open the listeners before changing any file, because another launcherd with other state may listen there.
  MUSTER_ASSIGN_OR_RETURN(ApiListeners listeners, open_listeners(options));
  auto parts = std::make_unique<Parts>(loop, std::move(directory));
  MUSTER_RETURN_IF_ERROR(parts->open_store(clock, options));
  MUSTER_RETURN_IF_ERROR(parts->serve(clock, options, std::move(listeners)));
  return std::unique_ptr<Daemon>(new Daemon(std::move(parts)));
}

Daemon::Daemon(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

Daemon::~Daemon() = default;

std::string Daemon::description() const {
  const HostTable& hosts = parts_->jobs->hosts();
  const std::size_t count = hosts.slots().size();
  const std::string more =
      parts_->dial_in == nullptr ? "" : "; more hosts can join by: muster-agent --join " + parts_->dial_in->join_file();
  const int awaited = hosts.count_awaited();
  const std::string asked = awaited == 0 ? "" : fmt::format(" ({} being asked for GPUs)", awaited);
  return fmt::format("serving {} with {} {}{} and {} {}{}{}", base::join(parts_->addresses, ", "), count,
                     count == 1 ? "host" : "hosts", asked, hosts.total_slots(),
                     hosts.total_slots() == 1 ? "slot" : "slots", more, parts_->token_note);
}

void Daemon::replace_hosts(const std::vector<model::HostSpec>& hosts) {
  if (parts_->dialled != nullptr) return parts_->dialled->replace_listed(hosts);
  parts_->jobs->replace_hosts(hosts);
}

base::Status Daemon::replace_certificates(const std::vector<TlsListener>& tls, const MetricsPort& metrics) {
  if (!tls.empty()) MUSTER_RETURN_IF_ERROR(parts_->server->replace_certificates(tls));
  if (parts_->metrics == nullptr || metrics.certificate.empty()) return base::ok_status();
  return parts_->metrics->replace_certificate(metrics.certificate, metrics.key);
}

void Daemon::leave(base::Loop::Task done) {
  parts_->jobs->leave([this, done = std::move(done)] {
    parts_->pool->let_go(done);  // the next launcherd resumes jobs that continue
  });
}

}  // namespace muster::launcherd::daemon
