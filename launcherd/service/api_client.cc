#include "launcherd/service/api_client.h"

#include <grpc/support/log.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>

#include "base/env.h"
#include "launcherd/service/api_socket.h"
#include "proto/muster/v1/launcher.grpc.pb.h"

namespace muster::launcherd {
namespace {

// For calls that may take for ever once they have begun.
constexpr std::chrono::seconds kConnectPatience{20};

base::Status from_grpc(const grpc::Status& status) {
  if (status.ok()) return base::ok_status();
  const auto code = static_cast<base::Code>(status.error_code());
  if (code == base::Code::kUnavailable) return base::error(code, "it has ended meanwhile");
  if (code == base::Code::kDeadlineExceeded) {
    return base::error(code, "its hvdrun has not answered in time: is it stopped (Ctrl-Z)?");
  }
  return {code, status.error_message()};
}

void set_patience(grpc::ClientContext& context, std::chrono::seconds patience) {
  context.set_deadline(std::chrono::system_clock::now() + patience);
}

}  // namespace

struct ApiClient::State {
  explicit State(std::string path_in) : path(std::move(path_in)) {}
  base::Status connect(std::chrono::seconds patience);

  const std::string path;
  std::unique_ptr<v1::Launcher::Stub> stub;  // once connected
};

base::Status ApiClient::State::connect(std::chrono::seconds patience) {
  if (stub != nullptr) return base::ok_status();
  MUSTER_ASSIGN_OR_RETURN(base::UniqueFd fd, connect_launcher(path, patience));
  MUSTER_RETURN_IF_ERROR(base::set_nonblocking(fd.get(), true));
  // gRPC's own remarks say nothing that the status does not; GRPC_VERBOSITY brings them back.
  if (!base::env_var("GRPC_VERBOSITY")) gpr_set_log_function([](gpr_log_func_args*) {});
  stub = v1::Launcher::NewStub(grpc::CreateInsecureChannelFromFd("launcher", fd.release()));
  return base::ok_status();
}

ApiClient::ApiClient(const std::string& socket_path) : state_(std::make_unique<State>(socket_path)) {}

ApiClient::~ApiClient() = default;
ApiClient::ApiClient(ApiClient&&) noexcept = default;

base::Result<v1::Job> ApiClient::get_job(int first_rank, int max_ranks, std::chrono::seconds patience) {
  MUSTER_RETURN_IF_ERROR(state_->connect(patience));
  grpc::ClientContext context;
  set_patience(context, patience);
  v1::GetJobRequest request;
  request.set_first_rank(first_rank);
  request.set_max_ranks(max_ranks);
  v1::Job job;
  MUSTER_RETURN_IF_ERROR(from_grpc(state_->stub->GetJob(&context, request, &job)));
  return job;
}

base::Status ApiClient::kill(bool at_once, std::chrono::seconds patience) {
  MUSTER_RETURN_IF_ERROR(state_->connect(patience));
  grpc::ClientContext context;
  set_patience(context, patience);
  v1::KillRequest request;
  request.set_at_once(at_once);
  v1::KillResponse response;
  return from_grpc(state_->stub->Kill(&context, request, &response));
}

base::Status ApiClient::signal(int signo, std::chrono::seconds patience) {
  MUSTER_RETURN_IF_ERROR(state_->connect(patience));
  grpc::ClientContext context;
  set_patience(context, patience);
  v1::SignalRequest request;
  request.set_signal(signo);
  v1::SignalResponse response;
  return from_grpc(state_->stub->Signal(&context, request, &response));
}

base::Status ApiClient::watch(std::uint64_t from_sequence, const std::function<bool(const v1::Event&)>& on_event) {
  MUSTER_RETURN_IF_ERROR(state_->connect(kConnectPatience));
  grpc::ClientContext context;
  v1::WatchRequest request;
  request.set_from_sequence(from_sequence);
  const auto reader = state_->stub->Watch(&context, request);
  v1::Event event;
  while (reader->Read(&event)) {
    if (on_event(event)) continue;
    context.TryCancel();
    static_cast<void>(reader->Finish());  // says CANCELLED
    return base::ok_status();
  }
  return from_grpc(reader->Finish());
}

base::Status ApiClient::stacks(const std::vector<int>& ranks, std::chrono::seconds patience,
                               const std::function<void(const v1::ProcessStack&)>& on_process) {
  MUSTER_RETURN_IF_ERROR(state_->connect(patience));
  grpc::ClientContext context;
  set_patience(context, patience);
  v1::StacksRequest request;
  request.mutable_ranks()->Add(ranks.begin(), ranks.end());
  const auto reader = state_->stub->Stacks(&context, request);
  v1::ProcessStack process;
  while (reader->Read(&process)) on_process(process);
  return from_grpc(reader->Finish());
}

}  // namespace muster::launcherd
