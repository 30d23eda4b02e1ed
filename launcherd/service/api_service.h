// ApiService implements the generated gRPC service. It maps each call to a function of ApiHandler and to the role that
// the call needs. Private to this folder.
#pragma once

#include "launcherd/service/api_calls.h"
#include "proto/muster/v1/launcher.grpc.pb.h"

namespace muster::launcherd::inline service {

class ApiService final : public v1::Launcher::CallbackService {
 public:
  explicit ApiService(ApiCalls& calls) : calls_(calls) {}

  // A command of `notify` runs beside launcherd's own keys and files, so the role submit is not enough for it.
  grpc::ServerUnaryReactor* Submit(grpc::CallbackServerContext* context, const v1::SubmitRequest* request,
                                   v1::SubmitResponse* answer) override {
    const Role role = request->notify().empty() ? Role::kSubmit : Role::kAdmin;
    return calls_.unary(context, role, &ApiHandler::submit, request, answer);
  }
  grpc::ServerUnaryReactor* GetJob(grpc::CallbackServerContext* context, const v1::GetJobRequest* request,
                                   v1::Job* answer) override {
    return calls_.unary(context, Role::kWatch, &ApiHandler::get_job, request, answer);
  }
  grpc::ServerUnaryReactor* ListJobs(grpc::CallbackServerContext* context, const v1::ListJobsRequest* request,
                                     v1::ListJobsResponse* answer) override {
    return calls_.unary(context, Role::kWatch, &ApiHandler::list_jobs, request, answer);
  }
  grpc::ServerUnaryReactor* ListElements(grpc::CallbackServerContext* context, const v1::ListElementsRequest* request,
                                         v1::ListElementsResponse* answer) override {
    return calls_.unary(context, Role::kWatch, &ApiHandler::list_elements, request, answer);
  }
  grpc::ServerWriteReactor<v1::Event>* Watch(grpc::CallbackServerContext* context,
                                             const v1::WatchRequest* request) override {
    return calls_.stream(context, Role::kWatch, &ApiHandler::watch, request);
  }
  grpc::ServerWriteReactor<v1::LogChunk>* Logs(grpc::CallbackServerContext* context,
                                               const v1::LogsRequest* request) override {
    return calls_.stream(context, Role::kWatch, &ApiHandler::logs, request);
  }
  grpc::ServerUnaryReactor* Kill(grpc::CallbackServerContext* context, const v1::KillRequest* request,
                                 v1::KillResponse* answer) override {
    return calls_.unary(context, Role::kSubmit, &ApiHandler::kill, request, answer);
  }
  grpc::ServerUnaryReactor* Signal(grpc::CallbackServerContext* context, const v1::SignalRequest* request,
                                   v1::SignalResponse* answer) override {
    return calls_.unary(context, Role::kSubmit, &ApiHandler::signal, request, answer);
  }
  grpc::ServerUnaryReactor* Hold(grpc::CallbackServerContext* context, const v1::HoldRequest* request,
                                 v1::HoldResponse* answer) override {
    return calls_.unary(context, Role::kSubmit, &ApiHandler::hold, request, answer);
  }
  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext* context, const v1::ReleaseRequest* request,
                                    v1::ReleaseResponse* answer) override {
    return calls_.unary(context, Role::kSubmit, &ApiHandler::release, request, answer);
  }
  grpc::ServerUnaryReactor* UpdateJob(grpc::CallbackServerContext* context, const v1::UpdateJobRequest* request,
                                      v1::UpdateJobResponse* answer) override {
    return calls_.unary(context, Role::kSubmit, &ApiHandler::update_job, request, answer);
  }
  grpc::ServerUnaryReactor* Rerun(grpc::CallbackServerContext* context, const v1::RerunRequest* request,
                                  v1::SubmitResponse* answer) override {
    return calls_.unary(context, Role::kSubmit, &ApiHandler::rerun, request, answer);
  }
  grpc::ServerUnaryReactor* Resize(grpc::CallbackServerContext* context, const v1::ResizeRequest* request,
                                   v1::ResizeResponse* answer) override {
    return calls_.unary(context, Role::kSubmit, &ApiHandler::resize, request, answer);
  }
  grpc::ServerWriteReactor<v1::ProcessStack>* Stacks(grpc::CallbackServerContext* context,
                                                     const v1::StacksRequest* request) override {
    return calls_.stream(context, Role::kSubmit, &ApiHandler::stacks, request);
  }
  grpc::ServerUnaryReactor* ExplainHang(grpc::CallbackServerContext* context, const v1::ExplainHangRequest* request,
                                        v1::HangReport* answer) override {
    return calls_.unary(context, Role::kSubmit, &ApiHandler::explain_hang, request, answer);
  }
  grpc::ServerBidiReactor<v1::ExecRequest, v1::ExecEvent>* Exec(grpc::CallbackServerContext* context) override {
    return calls_.duplex(context, Role::kSubmit, &ApiHandler::exec);
  }
  grpc::ServerUnaryReactor* History(grpc::CallbackServerContext* context, const v1::HistoryRequest* request,
                                    v1::HistoryResponse* answer) override {
    return calls_.unary(context, Role::kWatch, &ApiHandler::history, request, answer);
  }
  grpc::ServerWriteReactor<v1::CleanupReport>* Cleanup(grpc::CallbackServerContext* context,
                                                       const v1::CleanupRequest* request) override {
    return calls_.stream(context, Role::kAdmin, &ApiHandler::cleanup, request);
  }
  grpc::ServerUnaryReactor* ListHosts(grpc::CallbackServerContext* context, const v1::ListHostsRequest* request,
                                      v1::ListHostsResponse* answer) override {
    return calls_.unary(context, Role::kWatch, &ApiHandler::list_hosts, request, answer);
  }
  grpc::ServerUnaryReactor* DrainHost(grpc::CallbackServerContext* context, const v1::DrainHostRequest* request,
                                      v1::LauncherHost* answer) override {
    return calls_.unary(context, Role::kAdmin, &ApiHandler::drain_host, request, answer);
  }
  grpc::ServerUnaryReactor* ResumeHost(grpc::CallbackServerContext* context, const v1::ResumeHostRequest* request,
                                       v1::LauncherHost* answer) override {
    return calls_.unary(context, Role::kAdmin, &ApiHandler::resume_host, request, answer);
  }
  grpc::ServerUnaryReactor* GetCapabilities(grpc::CallbackServerContext* context,
                                            const v1::GetCapabilitiesRequest* request,
                                            v1::Capabilities* answer) override {
    return calls_.unary(context, Role::kWatch, &ApiHandler::get_capabilities, request, answer);
  }

 private:
  ApiCalls& calls_;
};

}  // namespace muster::launcherd::service
