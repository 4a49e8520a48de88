def hello():
    return "from elsewhere"
