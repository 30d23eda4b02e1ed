// ApiClient: State connects, and runs one unary or streaming call at a time. Each public function wraps one call.
// Read State::connect first, then the call templates, then the public functions.
#include "launcherd/service/api_client.h"

#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>

#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/env.h"
#include "launcherd/service/api_connection.h"
#include "proto/muster/v1/launcher.grpc.pb.h"
#include "proto/text_fields.h"

namespace muster::launcherd::inline service {
namespace {

using Stub = v1::Launcher::StubInterface;
template <typename Request, typename Answer>
using UnaryMethod = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Answer*);
template <typename Request, typename Answer>
using StreamMethod = std::unique_ptr<grpc::ClientReaderInterface<Answer>> (Stub::*)(grpc::ClientContext*,
                                                                                    const Request&);

// Limit on connecting, for calls that have no time limit afterwards.
constexpr std::chrono::seconds kConnectPatience{20};

}  // namespace

struct ApiClient::State {
  explicit State(LauncherAddress address_in)
      : address(std::move(address_in)),
        connection(address.connection != nullptr ? address.connection : std::make_shared<ApiConnection>()) {}

  base::Status connect(Patience patience);
  base::Status begin(grpc::ClientContext* call, std::optional<Patience> patience);
  base::Status end(const grpc::Status& status);

  template <typename Request, typename Answer>
  base::Result<Answer> ask(UnaryMethod<Request, Answer> call, const Request& request, Patience patience);
  template <typename Request, typename Answer>
  base::Status stream(StreamMethod<Request, Answer> call, const Request& request, std::optional<Patience> patience,
                      const OnAnswer<Answer>& on_answer);

  const LauncherAddress address;
  const std::shared_ptr<ApiConnection> connection;
  std::shared_ptr<grpc::Channel> channel;    // set once connected
  std::unique_ptr<v1::Launcher::Stub> stub;  // of `channel`

  std::mutex mutex;  // guards the next two members
  grpc::ClientContext* under_way = nullptr;
  bool is_cancelled = false;
};

base::Status ApiClient::State::connect(Patience patience) {
  if (stub != nullptr) return base::ok_status();
  // Drop gRPC's own log, because it adds nothing to the status. GRPC_VERBOSITY brings it back.
  if (!base::env_var("GRPC_VERBOSITY")) gpr_set_log_function([](gpr_log_func_args*) {});
  auto opened = connection->channel(address, patience);
  if (!opened.ok() && !address.is_foreground_job && opened.status().code() == base::Code::kUnavailable) {
    return end({grpc::StatusCode::UNAVAILABLE, "connection refused"});
  }
  if (!opened.ok()) return opened.status();
  channel = *std::move(opened);
  stub = v1::Launcher::NewStub(channel);
  return base::ok_status();
}

base::Status ApiClient::State::begin(grpc::ClientContext* call, std::optional<Patience> patience) {
  MUSTER_RETURN_IF_ERROR(connect(patience.value_or(kConnectPatience)));
  if (patience) call->set_deadline(std::chrono::system_clock::now() + *patience);
  const std::lock_guard lock(mutex);
  if (is_cancelled) return {base::Code::kCancelled, "the request was cancelled"};
  under_way = call;
  return base::ok_status();
}

base::Status ApiClient::State::end(const grpc::Status& status) {
  auto code = static_cast<base::Code>(status.error_code());
  {
    const std::lock_guard lock(mutex);
    under_way = nullptr;
    // A launcher that ends cancels the calls that it has not taken up.
    if (code == base::Code::kCancelled && !is_cancelled) code = base::Code::kUnavailable;
  }
  if (status.ok()) return base::ok_status();
  const std::string where = format_launcher_address(address);
  if (code == base::Code::kUnavailable) {
    stub.reset();
    if (channel != nullptr) connection->lost(std::exchange(channel, nullptr));
    if (address.is_foreground_job) return base::error(code, "the job has ended in the meantime");
    return base::error(code, "no launcherd answers at {} ({}): start one with launcherd --hostfile FILE", where,
                       status.error_message());
  }
  if (code == base::Code::kDeadlineExceeded) {
    if (!address.is_foreground_job) return base::error(code, "the launcherd at {} did not answer in time", where);
    return base::error(code, "its hvdrun did not answer in time: is it suspended (Ctrl-Z)?");
  }
  return {code, status.error_message()};
}

template <typename Request, typename Answer>
base::Result<Answer> ApiClient::State::ask(UnaryMethod<Request, Answer> call, const Request& request,
                                           Patience patience) {
  MUSTER_RETURN_IF_ERROR(proto::check_text(request));
  grpc::ClientContext context;
  MUSTER_RETURN_IF_ERROR(begin(&context, patience));
  Answer answer;
  Stub& launcher = *stub;
  MUSTER_RETURN_IF_ERROR(end((launcher.*call)(&context, request, &answer)));
  return answer;
}

template <typename Request, typename Answer>
base::Status ApiClient::State::stream(StreamMethod<Request, Answer> call, const Request& request,
                                      std::optional<Patience> patience, const OnAnswer<Answer>& on_answer) {
  MUSTER_RETURN_IF_ERROR(proto::check_text(request));
  grpc::ClientContext context;
  MUSTER_RETURN_IF_ERROR(begin(&context, patience));
  Stub& launcher = *stub;
  const auto reader = (launcher.*call)(&context, request);
  Answer answer;
  while (reader->Read(&answer)) {
    if (on_answer(answer)) continue;
    context.TryCancel();
    static_cast<void>(reader->Finish());  // returns CANCELLED, which is expected
    return end(grpc::Status::OK);
  }
  return end(reader->Finish());
}

ApiClient::ApiClient(LauncherAddress address) : state_(std::make_unique<State>(std::move(address))) {}

ApiClient::~ApiClient() = default;
ApiClient::ApiClient(ApiClient&&) noexcept = default;

base::Result<v1::SubmitResponse> ApiClient::submit(const v1::SubmitRequest& request, Patience patience) {
  return state_->ask<>(&Stub::Submit, request, patience);
}

base::Result<v1::Job> ApiClient::get_job(const v1::GetJobRequest& request, Patience patience) {
  return state_->ask<>(&Stub::GetJob, request, patience);
}

base::Result<v1::ListJobsResponse> ApiClient::list_jobs(const v1::ListJobsRequest& request, Patience patience) {
  return state_->ask<>(&Stub::ListJobs, request, patience);
}

base::Status ApiClient::kill(const v1::KillRequest& request, Patience patience) {
  return state_->ask<>(&Stub::Kill, request, patience).status();
}

base::Status ApiClient::signal(const v1::SignalRequest& request, Patience patience) {
  return state_->ask<>(&Stub::Signal, request, patience).status();
}

base::Result<v1::ListElementsResponse> ApiClient::list_elements(const v1::ListElementsRequest& request,
                                                                Patience patience) {
  return state_->ask<>(&Stub::ListElements, request, patience);
}

base::Status ApiClient::update_job(const v1::UpdateJobRequest& request, Patience patience) {
  return state_->ask<>(&Stub::UpdateJob, request, patience).status();
}

base::Status ApiClient::hold(const v1::HoldRequest& request, Patience patience) {
  return state_->ask<>(&Stub::Hold, request, patience).status();
}

base::Status ApiClient::release(const v1::ReleaseRequest& request, Patience patience) {
  return state_->ask<>(&Stub::Release, request, patience).status();
}

base::Result<v1::SubmitResponse> ApiClient::rerun(const v1::RerunRequest& request, Patience patience) {
  return state_->ask<>(&Stub::Rerun, request, patience);
}

base::Result<v1::ResizeResponse> ApiClient::resize(const v1::ResizeRequest& request, Patience patience) {
  return state_->ask<>(&Stub::Resize, request, patience);
}

base::Result<v1::HistoryResponse> ApiClient::history(const v1::HistoryRequest& request, Patience patience) {
  return state_->ask<>(&Stub::History, request, patience);
}

base::Result<v1::ListHostsResponse> ApiClient::list_hosts(Patience patience) {
  return state_->ask<>(&Stub::ListHosts, v1::ListHostsRequest(), patience);
}

base::Result<v1::LauncherHost> ApiClient::drain_host(const v1::DrainHostRequest& request, Patience patience) {
  return state_->ask<>(&Stub::DrainHost, request, patience);
}

base::Result<v1::LauncherHost> ApiClient::resume_host(const v1::ResumeHostRequest& request, Patience patience) {
  return state_->ask<>(&Stub::ResumeHost, request, patience);
}

base::Result<v1::Capabilities> ApiClient::capabilities(Patience patience) {
  return state_->ask<>(&Stub::GetCapabilities, v1::GetCapabilitiesRequest(), patience);
}

base::Result<v1::HangReport> ApiClient::explain_hang(const v1::ExplainHangRequest& request, Patience patience) {
  return state_->ask<>(&Stub::ExplainHang, request, patience);
}

base::Status ApiClient::watch(const v1::WatchRequest& request, const OnAnswer<v1::Event>& on_event) {
  return state_->stream<>(&Stub::Watch, request, std::nullopt, on_event);
}

base::Status ApiClient::logs(const v1::LogsRequest& request, const OnAnswer<v1::LogChunk>& on_chunk) {
  return state_->stream<>(&Stub::Logs, request, std::nullopt, on_chunk);
}

base::Status ApiClient::cleanup(const v1::CleanupRequest& request, const OnAnswer<v1::CleanupReport>& on_report) {
  return state_->stream<>(&Stub::Cleanup, request, std::nullopt, on_report);
}

base::Status ApiClient::stacks(const v1::StacksRequest& request, Patience patience,
                               const OnAnswer<v1::ProcessStack>& on_process) {
  return state_->stream<>(&Stub::Stacks, request, patience, on_process);
}

// Its members are destroyed in reverse order: gRPC needs the context for as long as the stream lives.
struct ExecCall::State {
  std::unique_ptr<grpc::ClientContext> context = std::make_unique<grpc::ClientContext>();
  std::unique_ptr<grpc::ClientReaderWriterInterface<v1::ExecRequest, v1::ExecEvent>> stream{};
  std::function<base::Status(const grpc::Status&)> end{};
  bool is_finished = false;
};

ExecCall::ExecCall(std::unique_ptr<State> state) : state_(std::move(state)) {}

ExecCall::~ExecCall() {
  if (state_->is_finished) return;
  cancel();
  v1::ExecEvent rest;
  while (read(rest)) {
  }
  static_cast<void>(finish());  // CANCELLED, which is expected
}

bool ExecCall::write(const v1::ExecRequest& request) {
  return state_->stream->Write(request);
}

bool ExecCall::read(v1::ExecEvent& event) {
  return state_->stream->Read(&event);
}

base::Status ExecCall::finish() {
  state_->is_finished = true;
  return state_->end(state_->stream->Finish());
}

void ExecCall::cancel() {
  state_->context->TryCancel();
}

base::Result<std::unique_ptr<ExecCall>> ApiClient::exec(const v1::ExecRequest& first) {
  MUSTER_RETURN_IF_ERROR(proto::check_text(first));
  auto call = std::make_unique<ExecCall::State>();
  MUSTER_RETURN_IF_ERROR(state_->begin(call->context.get(), std::nullopt));
  call->stream = state_->stub->Exec(call->context.get());
  call->end = [state = state_.get()](const grpc::Status& status) { return state->end(status); };
  call->stream->Write(first);  // read() and finish() tell of a failure
  return std::make_unique<ExecCall>(std::move(call));
}

void ApiClient::cancel() {
  const std::lock_guard lock(state_->mutex);
  state_->is_cancelled = true;
  if (state_->under_way != nullptr) state_->under_way->TryCancel();
}

}  // namespace muster::launcherd::service
