#include "launcherd/trace/grpc_sender.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/file.h"
#include "base/strings.h"

namespace muster::launcherd::inline trace {
namespace {

constexpr const char* kMethod = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
constexpr std::size_t kLongestFile = std::size_t{4} << 20;

// gRPC ends the process if a key or a value has other characters.
bool is_grpc_header(const std::pair<std::string, std::string>& header) {
  const bool is_key = std::ranges::all_of(header.first, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  });
  const bool is_value = std::ranges::all_of(header.second, [](char c) { return c >= ' ' && c <= '~'; });
  return is_key && is_value && !header.first.ends_with("-bin") && !header.first.starts_with("grpc-");
}

base::Result<std::string> file_of(std::string_view variable, const std::string& path) {
  if (path.empty()) return std::string();
  auto content = base::read_file(path, kLongestFile);
  if (content.ok()) return *std::move(content);
  return base::invalid_argument("{}={}: cannot be used: {}", variable, base::printable(path),
                                content.status().message());
}

base::Result<std::shared_ptr<grpc::ChannelCredentials>> credentials_of(const OtlpOptions& options) {
  if (!options.url.is_tls) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions tls;
  MUSTER_ASSIGN_OR_RETURN(tls.pem_root_certs, file_of("OTEL_EXPORTER_OTLP_CERTIFICATE", options.certificate));
  MUSTER_ASSIGN_OR_RETURN(tls.pem_cert_chain,
                          file_of("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", options.client_certificate));
  const std::string& key = options.client_key.empty() ? options.client_certificate : options.client_key;
  MUSTER_ASSIGN_OR_RETURN(tls.pem_private_key, file_of("OTEL_EXPORTER_OTLP_CLIENT_KEY", key));
  return grpc::SslCredentials(tls);
}

std::string bytes_of(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Dump(&slices).ok()) return bytes;
  for (const grpc::Slice& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

// The protocol names these as worth another try, and UNAVAILABLE.
bool is_worth_another_try(grpc::StatusCode code) {
  return code == grpc::StatusCode::CANCELLED || code == grpc::StatusCode::RESOURCE_EXHAUSTED ||
         code == grpc::StatusCode::ABORTED || code == grpc::StatusCode::OUT_OF_RANGE ||
         code == grpc::StatusCode::DATA_LOSS;
}

std::string advice_of(grpc::StatusCode code) {
  if (code == grpc::StatusCode::UNAUTHENTICATED || code == grpc::StatusCode::PERMISSION_DENIED) {
    return "; check OTEL_EXPORTER_OTLP_HEADERS";
  }
  return code == grpc::StatusCode::UNIMPLEMENTED ? "; check OTEL_EXPORTER_OTLP_ENDPOINT" : "";
}

std::string sentence_of(const grpc::Status& status) {
  constexpr std::size_t kShown = 200;
  return base::printable(status.error_message().substr(0, kShown));
}

base::Result<SendReply> reply_of(const grpc::Status& status, const grpc::ByteBuffer& response) {
  if (status.ok()) return SendReply{.body = bytes_of(response)};
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    return base::unavailable("no connection: {}", sentence_of(status));
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return base::deadline_exceeded("no answer in time");
  }
  return SendReply{
      .kind = is_worth_another_try(status.error_code()) ? SendReply::Kind::kBusy : SendReply::Kind::kRefused,
      .why = fmt::format("it answered with gRPC's error {} ({}){}", static_cast<int>(status.error_code()),
                         sentence_of(status), advice_of(status.error_code()))};
}

class GrpcSender final : public SpanSender {
 public:
  GrpcSender(std::shared_ptr<grpc::Channel> channel, std::vector<std::pair<std::string, std::string>> headers)
      : channel_(std::move(channel)), headers_(std::move(headers)) {}

  base::Result<SendReply> send(const std::string& body, const Waiter& waiter) const override {
    CancelSource done;  // readable when the call has ended
    MUSTER_RETURN_IF_ERROR(done.status());
    grpc::Status status;  // written before
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + waiter.left());
    for (const auto& [name, value] : headers_) context.AddMetadata(name, value);
    const grpc::Slice slice(body);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ByteBuffer response;
    grpc::GenericStub stub(channel_);
    stub.UnaryCall(&context, kMethod, grpc::StubOptions(), &request, &response, [&](const grpc::Status& ended) {
      status = ended;
      done.cancel();
    });
    const pollfd fd{done.fd(), POLLIN, 0};
    const base::Status waited = waiter.wait({&fd, 1});
    if (waited.ok()) return reply_of(status, response);
    // The call uses what lies on this stack until it has ended, which is soon. It must not own these values: gRPC
    // breaks if its own thread destroys the last reference to a channel.
    context.TryCancel();
    static_cast<void>(Waiter{.deadline = base::MonotonicTime::max()}.wait({&fd, 1}));
    return waited;
  }

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  const std::vector<std::pair<std::string, std::string>> headers_;
};

}  // namespace

base::Result<std::unique_ptr<SpanSender>> make_grpc_sender(const OtlpOptions& options) {
  std::vector<std::pair<std::string, std::string>> headers;
  for (const auto& [name, value] : options.headers) headers.emplace_back(base::lower(name), value);
  if (!std::ranges::all_of(headers, is_grpc_header)) {
    return base::invalid_argument("OTEL_EXPORTER_OTLP_HEADERS: a header has characters that gRPC does not allow");
  }
  MUSTER_ASSIGN_OR_RETURN(const auto credentials, credentials_of(options));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const bool is_v6 = options.url.host.find(':') != std::string::npos;
  const std::string target = is_v6 ? fmt::format("[{}]:{}", options.url.host, options.url.port)
                                   : fmt::format("{}:{}", options.url.host, options.url.port);
  return std::unique_ptr<SpanSender>(std::make_unique<GrpcSender>(
      grpc::CreateCustomChannel("dns:///" + target, credentials, arguments), std::move(headers)));
}

}  // namespace muster::launcherd::trace
