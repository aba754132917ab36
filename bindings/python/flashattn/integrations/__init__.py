# SPDX-License-Identifier: Apache-2.0
"""flashattn inside other projects. Each module needs the project it serves, and nothing else imports it."""
