// Tests the client of launcherd against a server in this test: TLS with client certificates, and the errors if the
// launcher is missing, belongs to another user, or must not be called any longer.
#include "launcherd/service/api_client.h"

#include <grpcpp/grpcpp.h>

#include <future>

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/tls.h"
#include "proto/muster/v1/launcher.grpc.pb.h"
#include "tests/unit/support/certificate_authority.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::api_client_test {
namespace {

constexpr std::chrono::seconds kPatience{30};

class Service final : public v1::Launcher::Service {
 public:
  grpc::Status Submit(grpc::ServerContext* context, const v1::SubmitRequest* request,
                      v1::SubmitResponse* response) override {
    peer = context->auth_context()->GetPeerIdentity().empty()
               ? ""
               : std::string(context->auth_context()->GetPeerIdentity().front().data());
    if (request->name() == "refused") return {grpc::StatusCode::RESOURCE_EXHAUSTED, "the disk is full"};
    response->set_job_id("abcdefgh");
    return grpc::Status::OK;
  }
  grpc::Status Logs(grpc::ServerContext*, const v1::LogsRequest* request,
                    grpc::ServerWriter<v1::LogChunk>* writer) override {
    v1::LogChunk chunk;
    chunk.set_data(request->job());
    for (std::uint64_t i = 1; i <= 3; ++i) {
      chunk.set_next_position(i);
      writer->Write(chunk);
    }
    sent.set_value();
    while (request->follow() && writer->Write(chunk)) continue;  // until the client stops reading
    return grpc::Status::OK;
  }

  std::string peer;
  std::promise<void> sent;
};

class ApiClientTest : public ::testing::Test {
 protected:
  ApiClientTest() : authority_(testing_support::CertificateAuthority::create().value()) {
    const auto server = authority_.issue("launcherd", {"DNS:localhost", "IP:127.0.0.1"}).value();
    grpc::SslServerCredentialsOptions tls(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
    tls.pem_root_certs = authority_.ca_pem();
    tls.pem_key_cert_pairs.push_back({server.key_pem, server.cert_pem});
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(tls), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
  }
  ~ApiClientTest() override { server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5)); }

  std::string file(const std::string& name, const std::string& content) const {
    const std::string path = root_ / name;
    EXPECT_TRUE(base::write_file_atomically(path, content).ok());
    return path;
  }
  LauncherAddress address(const testing_support::CertificateAuthority& signer) const {
    const auto own = signer.issue("alice", {"URI:muster://client/submit"}).value();
    LauncherAddress address = parse_launcher_address(fmt::format("localhost:{}", port_)).value();
    address.tls = {file("cert", own.cert_pem), file("key", own.key_pem), file("ca", authority_.ca_pem())};
    return address;
  }

  testing_support::CertificateAuthority authority_;
  testing_support::TempDir root_;
  Service service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(ApiClientTest, CertificatesOfBothSidesAreChecked) {
  ApiClient client(address(authority_));
  const auto submitted = client.submit({}, kPatience);
  ASSERT_TRUE(submitted.ok()) << submitted.status();
  EXPECT_EQ(submitted->job_id(), "abcdefgh");
  EXPECT_EQ(service_.peer, "muster://client/submit");
  v1::SubmitRequest refused;
  refused.set_name("refused");
  const base::Status status = client.submit(refused, kPatience).status();
  EXPECT_EQ(status.code(), base::Code::kResourceExhausted);
  EXPECT_EQ(status.message(), "the disk is full");

  const auto stranger = testing_support::CertificateAuthority::create().value();
  EXPECT_EQ(ApiClient(address(stranger)).submit({}, kPatience).status().code(), base::Code::kUnavailable);
  LauncherAddress deceived = address(authority_);
  deceived.tls.authority = file("other", stranger.ca_pem());
  EXPECT_EQ(ApiClient(deceived).submit({}, kPatience).status().code(), base::Code::kUnavailable);
}

TEST_F(ApiClientTest, WithoutCertificatesNothingIsSent) {
  LauncherAddress bare = address(authority_);
  bare.tls = {};
  const base::Status missing = ApiClient(bare).submit({}, kPatience).status();
  EXPECT_EQ(missing.code(), base::Code::kInvalidArgument);
  EXPECT_NE(missing.message().find("MUSTER_TLS_CERT"), std::string::npos) << missing;
  bare.tls = {root_ / "none", root_ / "none", root_ / "none"};
  const base::Status unreadable = ApiClient(bare).submit({}, kPatience).status();
  EXPECT_EQ(unreadable.code(), base::Code::kNotFound);
  EXPECT_NE(unreadable.message().find("--tls-cert"), std::string::npos) << unreadable;
}

// Otherwise gRPC would send a message that no launcher can read, and report nothing useful.
TEST_F(ApiClientTest, TextThatIsNoUtf8IsRefusedByName) {
  ApiClient client(address(authority_));
  v1::SubmitRequest request;
  request.set_name("caf\xe9");
  const base::Status refused = client.submit(request, kPatience).status();
  EXPECT_EQ(refused.code(), base::Code::kInvalidArgument);
  EXPECT_EQ(refused.message().find("name: "), 0u) << refused;
  v1::LogsRequest logs;
  logs.set_job("caf\xe9");
  EXPECT_EQ(client.logs(logs, [](const v1::LogChunk&) { return true; }).code(), base::Code::kInvalidArgument);
}

TEST_F(ApiClientTest, AStreamIsReadUntilItsReaderHasEnough) {
  ApiClient client(address(authority_));
  v1::LogsRequest request;
  request.set_job("abcd");
  std::vector<std::uint64_t> seen;
  const base::Status status = client.logs(request, [&](const v1::LogChunk& chunk) {
    EXPECT_EQ(chunk.data(), "abcd");
    seen.push_back(chunk.next_position());
    return seen.size() < 2;
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{1, 2}));
}

TEST_F(ApiClientTest, AnotherThreadEndsAStream) {
  ApiClient client(address(authority_));
  v1::LogsRequest request;
  request.set_follow(true);
  auto status =
      std::async(std::launch::async, [&] { return client.logs(request, [](const v1::LogChunk&) { return true; }); });
  service_.sent.get_future().wait();
  client.cancel();
  EXPECT_EQ(status.get().code(), base::Code::kCancelled);
  EXPECT_EQ(client.submit({}, kPatience).status().code(), base::Code::kCancelled);
}

TEST_F(ApiClientTest, NobodyIsThere) {
  const base::Status none = ApiClient(LauncherAddress{.path = root_ / "launcherd.sock"}).list_hosts(kPatience).status();
  EXPECT_EQ(none.code(), base::Code::kUnavailable);
  EXPECT_NE(none.message().find("no launcherd answers at unix:" + root_.path()), std::string::npos) << none;
  EXPECT_NE(none.message().find("launcherd --hostfile"), std::string::npos) << none;
  EXPECT_EQ(ApiClient(foreground_address(root_ / "job.sock")).get_job({}, kPatience).status().message(),
            "the job has ended in the meantime");
}

TEST(LauncherAddress, WhatIsOneAndWhatIsNot) {
  EXPECT_EQ(parse_launcher_address("unix:/run/user/1000/muster/launcherd.sock")->path,
            "/run/user/1000/muster/launcherd.sock");
  for (const char* const good : {"n1:7400", "10.0.0.1:7400", "[fe80::1]:7400", "head-1.example.org:65535"}) {
    const auto address = parse_launcher_address(good);
    ASSERT_TRUE(address.ok()) << good;
    EXPECT_EQ(address->endpoint, good);
    EXPECT_EQ(format_launcher_address(*address), good);
  }
  for (const char* const bad : {"", "n1", "n1:", "n1:0", "n1:65536", ":7400", "unix:relative", "unix:", "a b:1", "-x:1",
                                "fe80::1:7400", "[zz]:1", "n1:7400x", "/run/x.sock"}) {
    const auto address = parse_launcher_address(bad);
    EXPECT_EQ(address.status().code(), base::Code::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace muster::launcherd::api_client_test
