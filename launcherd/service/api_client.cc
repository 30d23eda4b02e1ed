#include "launcherd/service/api_client.h"

#include <grpc/support/log.h>
#include <grpcpp/grpcpp.h>

#include "base/env.h"
#include "proto/muster/v1/launcher.grpc.pb.h"

namespace muster::launcherd {

base::Status fetch_stacks(const std::string& socket_path, const std::vector<int>& ranks, std::chrono::seconds patience,
                          const std::function<void(const v1::ProcessStack&)>& on_process) {
  // gRPC's own remarks say nothing that the status does not; GRPC_VERBOSITY brings them back.
  if (!base::env_var("GRPC_VERBOSITY")) gpr_set_log_function([](gpr_log_func_args*) {});
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto channel = grpc::CreateCustomChannel("unix:" + socket_path, grpc::InsecureChannelCredentials(), arguments);
  const auto stub = v1::Launcher::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + patience);
  v1::StacksRequest request;
  request.mutable_ranks()->Add(ranks.begin(), ranks.end());
  const auto reader = stub->Stacks(&context, request);
  v1::ProcessStack process;
  while (reader->Read(&process)) on_process(process);
  const grpc::Status status = reader->Finish();
  return status.ok() ? base::ok_status()
                     : base::Status(static_cast<base::Code>(status.error_code()), status.error_message());
}

}  // namespace muster::launcherd
