#pragma once

#include <string>

namespace taut::cli {

/// A name as Kubernetes allows it: lower case letters, digits and '-' within, a letter first, at
/// most 40 of them, and no word that YAML 1.1 reads as a truth value or null. Suffixes of other
/// objects' names still fit. Never empty.
[[nodiscard]] std::string object_name(const std::string& name);

/// Whether a namespace may have this name: a label of RFC 1123, which has at most 63 characters.
/// Source    Kubernetes' documentation, "Object Names and IDs"
[[nodiscard]] bool is_namespace_name(const std::string& name);

/// Whether a PersistentVolumeClaim may have this name: a subdomain of RFC 1123, labels with '.'
/// between them, of at most 253 characters in all.
/// Source    as is_namespace_name()
[[nodiscard]] bool is_claim_name(const std::string& name);

}  // namespace taut::cli
