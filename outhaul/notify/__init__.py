"""How a result is told to the outside: one webhook, one e-mail, one alert. Sole home of httpcore and smtplib."""
