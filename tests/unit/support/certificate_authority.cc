#include "tests/unit/support/certificate_authority.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <string_view>

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace muster::testing_support {
namespace {

constexpr long kBackdateSeconds = 2L * 24 * 3600;
constexpr long kValiditySeconds = 30L * 24 * 3600;

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using X509Ptr = std::unique_ptr<X509, Deleter<X509_free>>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using BioPtr = std::unique_ptr<BIO, Deleter<BIO_free_all>>;
using NamesPtr = std::unique_ptr<GENERAL_NAMES, Deleter<GENERAL_NAMES_free>>;

// Returns the newest reason in OpenSSL's error queue and clears the queue.
std::string take_reason() {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* reason = ERR_reason_error_string(code);
  return reason != nullptr ? reason : "no reason given";
}

base::Status openssl_error(std::string_view what) {
  return base::internal_error("{}: {}", what, take_reason());
}

base::Result<std::string> bio_text(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  if (size <= 0) return openssl_error("write PEM");
  return std::string(data, static_cast<std::size_t>(size));
}

base::Result<std::string> certificate_pem(X509* certificate) {
  const BioPtr bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_X509(bio.get(), certificate) != 1) return openssl_error("write certificate");
  return bio_text(bio.get());
}

base::Result<std::string> private_key_pem(EVP_PKEY* key) {
  const BioPtr bio(BIO_new(BIO_s_secmem()));  // wiped when freed
  if (!bio || PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return openssl_error("write private key");
  }
  return bio_text(bio.get());
}

base::Status add_extension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Deleter<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, nid, value));
  if (!extension || X509_add_ext(certificate, extension.get(), -1) != 1) {
    return openssl_error(fmt::format("certificate extension {}", value));
  }
  return base::ok_status();
}

// Makes the part that certificates of the authority and of leaves have in common: serial, validity, subject and key.
// The caller must set the issuer and sign the certificate.
base::Result<X509Ptr> new_certificate(const std::string& common_name, EVP_PKEY* key) {
  X509Ptr certificate(X509_new());
  std::uint64_t serial = 0;
  if (getentropy(&serial, sizeof serial) != 0) return base::errno_error(errno, "random serial number");
  const std::time_t now = std::time(nullptr);
  const bool done = certificate && X509_set_version(certificate.get(), 2) == 1 &&
                    ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate.get()), serial >> 1) == 1 &&
                    ASN1_TIME_set(X509_getm_notBefore(certificate.get()), now - kBackdateSeconds) != nullptr &&
                    ASN1_TIME_set(X509_getm_notAfter(certificate.get()), now + kValiditySeconds) != nullptr &&
                    X509_set_pubkey(certificate.get(), key) == 1 &&
                    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
                                               reinterpret_cast<const unsigned char*>(common_name.data()),
                                               static_cast<int>(common_name.size()), -1, 0) == 1;
  if (!done) return openssl_error(fmt::format("make certificate for '{}'", common_name));
  return certificate;
}

// Appends one "KIND:value" to `names` as a GENERAL_NAME. It does not use a configuration string, so that no value can
// add further names.
base::Status append_name(GENERAL_NAMES* names, std::string_view entry) {
  const std::size_t colon = entry.find(':');
  const std::string_view kind = entry.substr(0, colon);
  const std::string value(colon == std::string_view::npos ? "" : entry.substr(colon + 1));
  const bool is_clean = std::none_of(value.begin(), value.end(), [](unsigned char c) { return c < 0x21 || c > 0x7e; });
  std::unique_ptr<GENERAL_NAME, Deleter<GENERAL_NAME_free>> name(GENERAL_NAME_new());
  if (kind == "IP") {
    ASN1_OCTET_STRING* address = a2i_IPADDRESS(value.c_str());
    if (address == nullptr) return base::invalid_argument("certificate name '{}' is not an address", entry);
    GENERAL_NAME_set0_value(name.get(), GEN_IPADD, address);
  } else if ((kind == "URI" || kind == "DNS") && is_clean && !value.empty()) {
    ASN1_IA5STRING* text = ASN1_IA5STRING_new();
    ASN1_STRING_set(text, value.data(), static_cast<int>(value.size()));
    GENERAL_NAME_set0_value(name.get(), kind == "URI" ? GEN_URI : GEN_DNS, text);
  } else {
    return base::invalid_argument("certificate name '{}' is not URI:…, DNS:… or IP:…", entry);
  }
  if (sk_GENERAL_NAME_push(names, name.get()) <= 0) return openssl_error("certificate names");
  (void)name.release();  // `names` owns it now
  return base::ok_status();
}

base::Status add_names(X509* certificate, const std::vector<std::string>& entries) {
  if (entries.empty()) return base::ok_status();
  const NamesPtr names(sk_GENERAL_NAME_new_null());
  for (const std::string& entry : entries) MUSTER_RETURN_IF_ERROR(append_name(names.get(), entry));
  if (X509_add1_ext_i2d(certificate, NID_subject_alt_name, names.get(), 0, X509V3_ADD_DEFAULT) != 1) {
    return openssl_error("certificate names");
  }
  return base::ok_status();
}

}  // namespace

CertificateAuthority::CertificateAuthority(std::shared_ptr<X509> certificate, std::shared_ptr<EVP_PKEY> key,
                                           std::string pem)
    : certificate_(std::move(certificate)), key_(std::move(key)), pem_(std::move(pem)) {}

base::Result<CertificateAuthority> CertificateAuthority::create() {
  KeyPtr key(EVP_EC_gen("P-256"));
  if (!key) return openssl_error("make the authority's key");
  MUSTER_ASSIGN_OR_RETURN(X509Ptr certificate, new_certificate("muster job authority", key.get()));
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get()));
  X509* const self = certificate.get();
  MUSTER_RETURN_IF_ERROR(add_extension(self, self, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  MUSTER_RETURN_IF_ERROR(add_extension(self, self, NID_key_usage, "critical,keyCertSign,cRLSign"));
  MUSTER_RETURN_IF_ERROR(add_extension(self, self, NID_subject_key_identifier, "hash"));
  if (X509_sign(self, key.get(), EVP_sha256()) <= 0) return openssl_error("sign the authority's certificate");
  MUSTER_ASSIGN_OR_RETURN(std::string pem, certificate_pem(self));
  return CertificateAuthority(std::move(certificate), std::move(key), std::move(pem));
}

base::Result<base::TlsIdentity> CertificateAuthority::issue(const std::string& common_name,
                                                            const std::vector<std::string>& alternative_names) const {
  const KeyPtr key(EVP_EC_gen("P-256"));
  if (!key) return openssl_error(fmt::format("make a key for '{}'", common_name));
  MUSTER_ASSIGN_OR_RETURN(const X509Ptr certificate, new_certificate(common_name, key.get()));
  X509* const leaf = certificate.get();
  X509_set_issuer_name(leaf, X509_get_subject_name(certificate_.get()));
  MUSTER_RETURN_IF_ERROR(add_extension(leaf, certificate_.get(), NID_basic_constraints, "critical,CA:FALSE"));
  MUSTER_RETURN_IF_ERROR(add_extension(leaf, certificate_.get(), NID_key_usage, "critical,digitalSignature"));
  MUSTER_RETURN_IF_ERROR(add_extension(leaf, certificate_.get(), NID_ext_key_usage, "serverAuth,clientAuth"));
  MUSTER_RETURN_IF_ERROR(add_extension(leaf, certificate_.get(), NID_authority_key_identifier, "keyid:always"));
  MUSTER_RETURN_IF_ERROR(add_names(leaf, alternative_names));
  if (X509_sign(leaf, key_.get(), EVP_sha256()) <= 0) {
    return openssl_error(fmt::format("sign the certificate of '{}'", common_name));
  }
  base::TlsIdentity identity;
  MUSTER_ASSIGN_OR_RETURN(identity.cert_pem, certificate_pem(leaf));
  MUSTER_ASSIGN_OR_RETURN(identity.key_pem, private_key_pem(key.get()));
  return identity;
}

}  // namespace muster::testing_support
