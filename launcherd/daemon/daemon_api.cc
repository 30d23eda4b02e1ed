// The whole of DaemonApi.
// Read it in this order: resolve and stream_of, which look a job up; then one function for each call.
#include "launcherd/daemon/daemon_api.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "launcherd/daemon/job_view.h"
#include "launcherd/run/exec_stream.h"
#include "launcherd/start/make_bootstrap.h"
#include "proto/hang_convert.h"

namespace muster::launcherd::inline daemon {
namespace {

using base::Code;

constexpr std::size_t kLongestId = 8;

// Checks the job's name in a request, so that no question to the store is needed.
base::Status check_word(const std::string& job) {
  const std::size_t length = model::parse_job_word(job).job.size();
  if (length > 0 && length <= kLongestId) return base::ok_status();
  return base::error(job.empty() ? Code::kInvalidArgument : Code::kNotFound,
                     "job: {}: give a job's id, or the first letters of one",
                     job.empty() ? "the name is empty" : "the name is too long for a job's id");
}

base::Status not_started(const NamedJob& named) {
  return base::failed_precondition("element {} of job {} has not started yet", *named.unstarted, named.id.str());
}

}  // namespace

// The bootstrap and the hosts of one Cleanup call.
struct DaemonApi::RunningCleanup {
  std::unique_ptr<Bootstrap> bootstrap;
  std::unique_ptr<HostCommand> hosts;
};

DaemonApi::DaemonApi(Parts parts) : parts_(std::move(parts)) {}

DaemonApi::~DaemonApi() = default;

void DaemonApi::find(const std::string& job, std::function<void(base::Result<NamedJob>)> found) {
  if (const base::Status wrong = check_word(job); !wrong.ok()) return found(wrong);
  if (auto id = base::JobId::parse(job); id.ok()) return found(NamedJob{*std::move(id)});
  parts_.store->read<NamedJob>([job](StoreReader& reader) { return find_named(reader, job); }, gate_.wrap(found));
}

void DaemonApi::resolve(const std::string& job, Resolved resolved) {
  find(job, [resolved = std::move(resolved)](base::Result<NamedJob> named) {
    if (!named.ok()) return resolved(named.status());
    if (named->unstarted) return resolved(not_started(*named));
    resolved(std::move(named->id));
  });
}

void DaemonApi::resolve_whole(const std::string& job, Resolved resolved) {
  if (!model::parse_job_word(job).index) return resolve(job, std::move(resolved));
  resolved(base::invalid_argument("job: {} is an element of an array, and this call takes the whole array",
                                  base::printable(job)));
}

void DaemonApi::resolve_single(const std::string& job, Resolved resolved) {
  resolve(job, [this, resolved = std::move(resolved)](const base::Result<base::JobId>& id) {
    if (!id.ok()) return resolved(id);
    parts_.store->read<base::JobId>(
        [id = *id](StoreReader& reader) -> base::Result<base::JobId> {
          MUSTER_ASSIGN_OR_RETURN(const v1::StoredSpec spec, stored_spec(reader, id));
          if (!spec.request().has_array()) return id;
          return base::failed_precondition("job {} is an array: name one element, as in {}", id.str(),
                                           model::element_name(id.str(), spec.request().array().elements(0).first()));
        },
        gate_.wrap(resolved));
  });
}

void DaemonApi::refuse_ended(const base::JobId& id, std::function<void(base::Status)> refuse) {
  parts_.store->read<StoredJob>(
      [id](StoreReader& reader) { return reader.job(id); },
      [id, refuse = std::move(refuse)](const base::Result<StoredJob>& job) {
        if (!job.ok()) {
          refuse(job.status());
        } else {
          refuse(base::failed_precondition("job {} has ended: {}", id.str(), model::name_of(job->state)));
        }
      });
}

void DaemonApi::submit(const v1::SubmitRequest& request, const std::string& user, Reply<v1::SubmitResponse> reply) {
  parts_.jobs->submit(request, user, std::move(reply));
}

void DaemonApi::get_job(const v1::GetJobRequest& request, Reply<v1::Job> reply) {
  find(request.job(), [this, request, reply = std::move(reply)](const base::Result<NamedJob>& named) {
    if (!named.ok()) return reply(named.status());
    const std::optional<int> size = parts_.jobs->size_of(named->id);
    parts_.store->read<v1::Job>(
        [named = *named, request, size](StoreReader& reader) {
          return named.unstarted ? read_unstarted(reader, named.id, *named.unstarted)
                                 : read_job(reader, named.id, request, size);
        },
        gate_.wrap([this, reply, is_stored = !named->unstarted](base::Result<v1::Job> job) {
          if (job.ok()) {
            if (is_stored) parts_.jobs->describe(*job);
            if (is_stored) parts_.jobs->add_expected_start(*job);
            if (job->has_element()) job->set_id(model::element_name(job->element().array(), job->element().index()));
            job->set_launcher_host(parts_.capabilities.host());
            job->set_launcher_pid(parts_.capabilities.pid());
          }
          reply(std::move(job));
        }));
  });
}

void DaemonApi::list_jobs(const v1::ListJobsRequest& request, Reply<v1::ListJobsResponse> reply) {
  parts_.store->read<v1::ListJobsResponse>(
      [request, catalog = catalog_, now = parts_.clock->wall()](StoreReader& reader) {
        return catalog->list(reader, request, now);
      },
      gate_.wrap([this, reply = std::move(reply)](base::Result<v1::ListJobsResponse> page) {
        if (page.ok()) {
          parts_.jobs->describe(*page->mutable_jobs());
          for (v1::Job& job : *page->mutable_jobs()) {
            job.set_launcher_host(parts_.capabilities.host());
            job.set_launcher_pid(parts_.capabilities.pid());
          }
        }
        reply(std::move(page));
      }));
}

void DaemonApi::list_elements(const v1::ListElementsRequest& request, Reply<v1::ListElementsResponse> reply) {
  resolve_whole(request.job(), [this, request, reply = std::move(reply)](const base::Result<base::JobId>& id) {
    if (!id.ok()) return reply(id.status());
    parts_.store->read<v1::ListElementsResponse>(
        [id = *id, request](StoreReader& reader) { return read_elements(reader, id, request); }, gate_.wrap(reply));
  });
}

// Begins a stream after the job was looked up. The client may have left by then.
template <typename Answer>
Gone DaemonApi::stream_of(Resolve look_up, const std::string& job, Replies<Answer> replies,
                          std::function<Gone(const base::JobId&, Replies<Answer>)> begin) {
  struct State {
    bool is_gone = false;
    Gone gone;
  };
  auto state = std::make_shared<State>();
  (this->*look_up)(
      job, [state, replies = std::move(replies), begin = std::move(begin)](const base::Result<base::JobId>& id) {
        if (state->is_gone) return;
        if (!id.ok()) {
          replies.done(id.status());
          return;
        }
        state->gone = begin(*id, replies);
      });
  return [state] {
    state->is_gone = true;
    if (state->gone) std::exchange(state->gone, nullptr)();
  };
}

Gone DaemonApi::watch(const v1::WatchRequest& request, Replies<v1::Event> replies) {
  return stream_of<v1::Event>(&DaemonApi::resolve, request.job(), std::move(replies),
                              [this, from = request.from_sequence()](const base::JobId& id, Replies<v1::Event> to) {
                                return parts_.watches->watch(id, from, std::move(to));
                              });
}

Gone DaemonApi::logs(const v1::LogsRequest& request, Replies<v1::LogChunk> replies) {
  auto query = log_query_of(request);
  if (!query.ok()) {
    replies.done(query.status());
    return {};
  }
  const bool follows = request.follow();
  return stream_of<v1::LogChunk>(
      &DaemonApi::resolve_single, request.job(), std::move(replies),
      [this, query = *query, follows](const base::JobId& id, Replies<v1::LogChunk> to) mutable -> Gone {
        query.path = fmt::format("{}/{}/output", parts_.jobs->jobs_directory(), id.str());
        if (parts_.jobs->is_open(id)) {
          query.follow = follows;
          return parts_.logs->read(std::move(query), std::move(to));
        }
        auto gone = std::make_shared<Gone>([] {});
        parts_.store->read<StoredJob>([id](StoreReader& reader) { return reader.job(id); },
                                      gate_.wrap([this, query, to, gone](const base::Result<StoredJob>& job) {
                                        if (*gone == nullptr) return;
                                        if (job.ok()) {
                                          *gone = parts_.logs->read(query, to);
                                        } else {
                                          to.done(job.status());
                                        }
                                      }));
        return [gone] {
          if (*gone) std::exchange(*gone, nullptr)();
        };
      });
}

void DaemonApi::kill(const v1::KillRequest& request, Reply<v1::KillResponse> reply) {
  find(request.job(),
       [this, at_once = request.at_once(), reply = std::move(reply)](const base::Result<NamedJob>& named) {
         if (!named.ok()) return reply(named.status());
         const auto done = [this, id = named->id, reply](const base::Status& status) {
           if (status.code() == Code::kNotFound) {
             refuse_ended(id, reply);
           } else if (!status.ok()) {
             reply(status);
           } else {
             reply(v1::KillResponse());
           }
         };
         if (named->unstarted) {
           parts_.jobs->kill_unstarted(named->id, *named->unstarted, done);
         } else {
           parts_.jobs->kill(named->id, at_once, done);
         }
       });
}

void DaemonApi::signal(const v1::SignalRequest& request, Reply<v1::SignalResponse> reply) {
  resolve(request.job(),
          [this, signo = request.signal(), reply = std::move(reply)](const base::Result<base::JobId>& id) {
            if (!id.ok()) {
              reply(id.status());
              return;
            }
            const base::Status status = parts_.jobs->signal(*id, signo);
            if (status.code() == Code::kNotFound) {
              refuse_ended(*id, reply);
            } else if (!status.ok()) {
              reply(status);
            } else {
              reply(v1::SignalResponse());
            }
          });
}

void DaemonApi::hold(const v1::HoldRequest& request, const std::string& user, Reply<v1::HoldResponse> reply) {
  resolve_whole(request.job(), [this, user, reply = std::move(reply)](const base::Result<base::JobId>& id) {
    if (!id.ok()) return reply(id.status());
    parts_.jobs->hold(*id, user, [this, id = *id, reply](const base::Status& status) {
      if (status.code() == Code::kNotFound) return refuse_ended(id, reply);
      if (!status.ok()) return reply(status);
      reply(v1::HoldResponse());
    });
  });
}

void DaemonApi::release(const v1::ReleaseRequest& request, Reply<v1::ReleaseResponse> reply) {
  resolve_whole(request.job(), [this, reply = std::move(reply)](const base::Result<base::JobId>& id) {
    if (!id.ok()) return reply(id.status());
    parts_.jobs->release(*id, [this, id = *id, reply](const base::Status& status) {
      if (status.ok()) return reply(v1::ReleaseResponse());
      if (status.code() != Code::kNotFound) return reply(status);
      // A job that has ended is not held, so this does nothing. An unknown job is an error.
      parts_.store->read<StoredJob>([id](StoreReader& reader) { return reader.job(id); },
                                    [reply](const base::Result<StoredJob>& job) {
                                      if (!job.ok()) return reply(job.status());
                                      reply(v1::ReleaseResponse());
                                    });
    });
  });
}

void DaemonApi::update_job(const v1::UpdateJobRequest& request, const std::string& user,
                           Reply<v1::UpdateJobResponse> reply) {
  resolve_whole(request.job(), [this, request, user, reply = std::move(reply)](const base::Result<base::JobId>& id) {
    if (!id.ok()) return reply(id.status());
    if (!parts_.jobs->is_open(*id)) return refuse_ended(*id, reply);
    parts_.jobs->update(*id, request, user, [this, id = *id, reply](const base::Status& status) {
      if (status.ok()) return reply(v1::UpdateJobResponse());
      if (status.code() == Code::kNotFound && !parts_.jobs->is_open(id)) return refuse_ended(id, reply);
      reply(status);
    });
  });
}

void DaemonApi::rerun(const v1::RerunRequest& request, const std::string& user, Reply<v1::SubmitResponse> reply) {
  resolve_whole(request.job(), [this, request_id = request.request_id(), user,
                                reply = std::move(reply)](const base::Result<base::JobId>& id) {
    if (!id.ok()) return reply(id.status());
    parts_.jobs->rerun(*id, request_id, user, reply);
  });
}

void DaemonApi::resize(const v1::ResizeRequest& request, Reply<v1::ResizeResponse> reply) {
  resolve(request.job(), [this, request, reply = std::move(reply)](const base::Result<base::JobId>& id) {
    if (!id.ok()) {
      reply(id.status());
      return;
    }
    parts_.jobs->resize(*id, request, [this, id = *id, reply](base::Result<v1::ResizeResponse> response) {
      if (response.status().code() == Code::kNotFound && !parts_.jobs->is_open(id)) {
        refuse_ended(id, reply);
      } else {
        reply(std::move(response));
      }
    });
  });
}

Gone DaemonApi::stacks(const v1::StacksRequest& request, Replies<v1::ProcessStack> replies) {
  const StackQuery query{.ranks = {request.ranks().begin(), request.ranks().end()}, .is_native = request.native()};
  return stream_of<v1::ProcessStack>(&DaemonApi::resolve_single, request.job(), std::move(replies),
                                     [this, query](const base::JobId& id, Replies<v1::ProcessStack> to) -> Gone {
                                       const base::Status started = parts_.jobs->stacks(
                                           id, query, to.send, [done = to.done] { done(base::ok_status()); });
                                       if (started.code() == Code::kNotFound) {
                                         refuse_ended(id, to.done);
                                       } else if (!started.ok()) {
                                         to.done(started);
                                       }
                                       return {};
                                     });
}

Requests<v1::ExecRequest> DaemonApi::exec(const v1::ExecRequest& first, Replies<v1::ExecEvent> replies) {
  auto created = ExecStream::create(first, replies);
  if (!created.ok()) {
    replies.done(created.status());
    return {};
  }
  const std::shared_ptr<ExecStream> stream = *std::move(created);
  resolve_single(first.job(), [this, stream](const base::Result<base::JobId>& id) {
    if (!id.ok()) return stream->fail(id.status());
    const base::Status started = stream->begin([this, &id](const v1::ExecRequest& request, ExecCaller caller) {
      return parts_.jobs->exec(*id, request, std::move(caller));
    });
    if (started.code() == Code::kNotFound) {
      refuse_ended(*id, [stream](const base::Status& why) { stream->fail(why); });
    } else if (!started.ok()) {
      stream->fail(started);
    }
  });
  return stream->controls();
}

void DaemonApi::explain_hang(const v1::ExplainHangRequest& request, Reply<v1::HangReport> reply) {
  resolve(request.job(), [this, reply = std::move(reply)](const base::Result<base::JobId>& id) {
    if (!id.ok()) return reply(id.status());
    const base::Status asked =
        parts_.jobs->explain_hang(*id, [reply](const model::HangReport& report) { reply(proto::to_proto(report)); });
    if (asked.code() == Code::kNotFound) return refuse_ended(*id, reply);
    if (!asked.ok()) reply(asked);
  });
}

void DaemonApi::history(const v1::HistoryRequest& request, Reply<v1::HistoryResponse> reply) {
  if (request.job().empty()) return reply(parts_.history->answer(request, parts_.jobs->host_names()));
  resolve(request.job(), [this, wanted = request,
                          reply = std::move(reply)](const base::Result<base::JobId>& id) mutable {
    if (!id.ok()) return reply(id.status());
    wanted.set_job(id->str());
    const bool names_hosts = !wanted.hosts().empty();
    reply(parts_.history->answer(wanted, names_hosts ? parts_.jobs->host_names() : parts_.jobs->hosts_of(id->str())));
  });
}

void DaemonApi::get_spec(const std::string& job, Reply<v1::JobSpec> reply) {
  resolve(job, [this, reply = std::move(reply)](const base::Result<base::JobId>& id) {
    if (!id.ok()) return reply(id.status());
    parts_.store->read<v1::JobSpec>(
        [id = *id](StoreReader& reader) -> base::Result<v1::JobSpec> {
          MUSTER_ASSIGN_OR_RETURN(const v1::StoredSpec spec, stored_spec(reader, id));
          return spec.request().spec();
        },
        gate_.wrap(reply));
  });
}

base::Result<CleanupPlan> DaemonApi::plan_of(const v1::CleanupRequest& request) const {
  CleanupPlan plan{
      .hosts = {}, .job = request.job(), .dry_run = request.dry_run(), .session_root = parts_.session_root};
  if (!plan.job.empty()) MUSTER_RETURN_IF_ERROR(base::JobId::parse(plan.job).status().with_context("job"));
  for (const std::string& name : request.hosts()) {
    MUSTER_RETURN_IF_ERROR(parts_.jobs->hosts().message(name).status());
  }
  for (const SlotHost& host : parts_.jobs->hosts().slots()) {
    const bool is_meant =
        request.hosts().empty() || std::ranges::find(request.hosts(), host.host.name) != request.hosts().end();
    if (is_meant) plan.hosts.push_back(host.host);
  }
  return plan;
}

Gone DaemonApi::cleanup(const v1::CleanupRequest& request, Replies<v1::CleanupReport> replies) {
  auto plan = plan_of(request);
  auto bootstrap = plan.ok() ? make_bootstrap(parts_.bootstrap) : plan.status();
  if (!bootstrap.ok()) {
    replies.done(bootstrap.status());
    return {};
  }
  const std::uint64_t number = next_cleanup_++;
  auto running = std::make_unique<RunningCleanup>();
  running->bootstrap = std::move(*bootstrap);
  HostCommand::Events events;
  events.on_done = [this, number, replies, plan = *plan](const HostCommand::Results& results) {
    for (v1::CleanupReport& report : cleanup_reports(plan, results)) replies.send(std::move(report));
    replies.done(base::ok_status());
    parts_.loop->post(gate_.wrap([this, number] { cleanups_.erase(number); }));
  };
  running->hosts = std::make_unique<HostCommand>(*parts_.loop, running->bootstrap.get(), plan->hosts,
                                                 cleanup_arguments(*plan), std::move(events));
  HostCommand* const hosts = running->hosts.get();
  cleanups_.emplace(number, std::move(running));
  hosts->start();
  // If the client leaves, the cleanup still finishes.
  return {};
}

void DaemonApi::list_hosts(const v1::ListHostsRequest&, Reply<v1::ListHostsResponse> reply) {
  v1::ListHostsResponse response;
  for (v1::LauncherHost& host : parts_.jobs->host_messages()) *response.add_hosts() = std::move(host);
  reply(std::move(response));
}

void DaemonApi::drain_host(const v1::DrainHostRequest& request, Reply<v1::LauncherHost> reply) {
  parts_.jobs->drain(request.host(), request.reason(), std::move(reply));
}

void DaemonApi::resume_host(const v1::ResumeHostRequest& request, Reply<v1::LauncherHost> reply) {
  parts_.jobs->resume(request.host(), std::move(reply));
}

void DaemonApi::get_capabilities(const v1::GetCapabilitiesRequest&, Reply<v1::Capabilities> reply) {
  reply(parts_.capabilities);
}

}  // namespace muster::launcherd::daemon
